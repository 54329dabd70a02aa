package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// diskOf is a file of a Cap in the folder of a bridge.
func diskOf(n *bridgetest.Node, id, name string) string {
	return filepath.Join(n.Config.Places().Caps, vfs.MirrorFolder("default"), id, "disk", name)
}

// holds waits until a bridge has a file in the folder of a Cap.
func holds(t *testing.T, n *bridgetest.Node, id, name, text string) {
	t.Helper()
	var got []byte
	eventually.Holds(t, fmt.Sprintf("bridge %s has %s", n.Config.ID, name), func() bool {
		got, _ = os.ReadFile(diskOf(n, id, name))
		return string(got) == text
	}, &got)
}

// mirrored waits for the event of a mirror of a Cap.
func mirrored(t *testing.T, c *bridgetest.Raw, name string) {
	t.Helper()
	for {
		if e, err := protocol.DecodeEvent(c.Next(t).Payload, protocol.Limits{}); err == nil && e.Name == name {
			return
		}
	}
}

// TestAMirrorIsSeenFromEveryBridge gives all commands to a bridge that does not mirror.
func TestAMirrorIsSeenFromEveryBridge(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	onB, onC, member := n[1].Caller(t, "me-b"), n[2].Caller(t, "me-c"), n[2].Connect(t, "member")
	member.Listen(t, "aibridge/cap/home/event")
	must(t, onC, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"owner","sync_enabled":true,"max_members":2}`)
	must(t, onC, "cap.vfs.sync", `{"cap_id":"home","vfs_path":"/vfs/cap/home/disk/plan.txt","content":"21 degrees"}`)
	holds(t, n[0], "home", "plan.txt", "21 degrees")
	must(t, onB, "cap.vfs.sync.pause", `{"cap_id":"home"}`)
	report := must(t, onC, "cap.vfs.sync.report", `{"cap_id":"home","folder":{"name":"hall","sync_status":"synced","pending":0,"failed":0,"conflicts":0,"free":-1}}`)
	if got := field(t, report, "paused"); got != "true" {
		t.Errorf("a device is told %s", report)
	}
	must(t, onB, "cap.vfs.sync.rescan", `{"cap_id":"home"}`)
	var status caps.StatusResult
	if err := json.Unmarshal(must(t, onC, "cap.vfs.sync.status", `{"cap_id":"home"}`), &status); err != nil || !status.Paused || len(status.Folders) != 1 || status.Folders[0].Name != "hall" {
		t.Errorf("%+v, %v", status, err)
	}
	must(t, onC, "cap.vfs.sync.resume", `{"cap_id":"home"}`)
	var list caps.ListResult
	if err := json.Unmarshal(must(t, onC, "cap.vfs.sync.list", `{}`), &list); err != nil || len(list.Mirrors) != 1 || list.Mirrors[0].Folders != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, other := range n[1:] {
		if _, err := os.Lstat(filepath.Dir(diskOf(other, "home", "plan.txt"))); !os.IsNotExist(err) {
			t.Errorf("bridge %s has a folder of the Cap: %v", other.Config.ID, err)
		}
	}

	plan := status.Files[slices.IndexFunc(status.Files, func(f caps.FileView) bool { return f.Path == "/vfs/cap/home/disk/plan.txt" })]
	bridgetest.Write(t, diskOf(n[0], "home", "plan.txt"), "damaged")
	mirrored(t, member, "cap.vfs.synced")
	must(t, onB, "cap.vfs.recover", fmt.Sprintf(`{"cap_id":"home","snapshot_id":"%d"}`, plan.Version))
	holds(t, n[0], "home", "plan.txt", "21 degrees")
	mirrored(t, member, "cap.vfs.recovered")
}

// TestTheMirrorOfACapOutlivesItsBridge declares the bridge dead that mirrors a Cap.
func TestTheMirrorOfACapOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	onA, onC, member := n[0].Caller(t, "me"), n[2].Caller(t, "me-c"), n[2].Connect(t, "member")
	must(t, onA, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"owner","sync_enabled":true,"max_members":2}`)
	must(t, onA, "cap.vfs.sync", `{"cap_id":"home","vfs_path":"/vfs/cap/home/disk/plan.txt","content":"21 degrees"}`)
	holds(t, n[0], "home", "plan.txt", "21 degrees")
	verdict(t, url, "a")
	_ = n[0].Ended(t)
	holds(t, n[1], "home", "plan.txt", "21 degrees")
	eventually.Holds(t, "c knows that a has ended", func() bool { return members(t, onC)[0].ID == "b" })

	member.Listen(t, "aibridge/cap/home/event")
	must(t, onC, "cap.vfs.sync", `{"cap_id":"home","vfs_path":"/vfs/cap/home/disk/plan.txt","content":"19 degrees"}`)
	holds(t, n[1], "home", "plan.txt", "19 degrees")
	bridgetest.Write(t, diskOf(n[1], "home", "plan.txt"), "17 degrees")
	mirrored(t, member, "cap.vfs.synced")
}
