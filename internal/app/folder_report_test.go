package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client/agent/folder"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// What a device tells of its folder is what the bridge takes and shows.
func TestTheFolderOfADeviceIsShown(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	caller := n.Caller(t, "owner")
	must(t, caller, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"owner","sync_enabled":true,"max_members":2}`)
	told := folder.Report{Name: "hall", Status: "failed", Pending: 3, Failed: 1, Conflicts: 2, Free: -1, LastSync: 5,
		Problems: []folder.Problem{{Path: "NUL", Reason: "is a device"}},
		Lost:     []folder.Copy{{Path: "plan.txt", Checksum: strings.Repeat("ab", 32), Size: 4, Time: 5}}}
	params, err := json.Marshal(map[string]any{"cap_id": "home", "folder": told})
	if err != nil {
		t.Fatal(err)
	}
	var orders folder.Orders
	if err := json.Unmarshal(must(t, caller, "cap.vfs.sync.report", string(params)), &orders); err != nil || orders.Paused {
		t.Fatalf("%+v, %v", orders, err)
	}
	must(t, caller, "cap.vfs.sync.pause", `{"cap_id":"home"}`)
	must(t, caller, "cap.vfs.sync.rescan", `{"cap_id":"home","contents":true}`)
	if err := json.Unmarshal(must(t, caller, "cap.vfs.sync.report", string(params)), &orders); err != nil || !orders.Paused ||
		orders.Rescan.Time == 0 || !orders.Rescan.Contents {
		t.Fatalf("%+v, %v", orders, err)
	}
	var status caps.StatusResult
	if err := json.Unmarshal(must(t, caller, "cap.vfs.sync.status", `{"cap_id":"home"}`), &status); err != nil || len(status.Folders) != 1 {
		t.Fatalf("%+v, %v", status, err)
	}
	must(t, caller, "cap.vfs.sync.restore", fmt.Sprintf(`{"cap_id":"home","vfs_path":"/vfs/cap/home/disk/plan.txt","owner":%q,"folder":"hall","checksum":%q}`,
		status.Folders[0].Owner, told.Lost[0].Checksum))
	if err := json.Unmarshal(must(t, caller, "cap.vfs.sync.report", string(params)), &orders); err != nil || len(orders.Restore) != 1 ||
		orders.Restore[0] != (folder.Restore{ID: orders.Restore[0].ID, Path: "plan.txt", Checksum: told.Lost[0].Checksum}) {
		t.Fatalf("%+v, %v", orders, err)
	}
	params, err = json.Marshal(map[string]any{"cap_id": "home", "folder": told, "obeyed": []folder.Obeyed{{ID: orders.Restore[0].ID, Reason: "the disk is full"}}})
	if err != nil {
		t.Fatal(err)
	}
	orders = folder.Orders{}
	if err := json.Unmarshal(must(t, caller, "cap.vfs.sync.report", string(params)), &orders); err != nil || len(orders.Restore) != 0 {
		t.Fatalf("%+v, %v", orders, err)
	}
	must(t, caller, "cap.vfs.sync.resume", `{"cap_id":"home"}`)
	status = caps.StatusResult{}
	if err := json.Unmarshal(must(t, caller, "cap.vfs.sync.status", `{"cap_id":"home"}`), &status); err != nil || len(status.Folders) != 1 {
		t.Fatalf("%+v, %v", status, err)
	}
	f := status.Folders[0]
	shown, err := json.Marshal(f.FolderReport)
	if err != nil {
		t.Fatal(err)
	}
	var back folder.Report
	if err := json.Unmarshal(shown, &back); err != nil || back.Name != told.Name || back.Pending != 3 || back.Free != -1 || len(back.Problems) != 1 || f.Time == 0 {
		t.Errorf("%s", shown)
	}
	if len(back.Lost) != 1 || back.Lost[0] != told.Lost[0] || len(f.Restores) != 1 || f.Restores[0].Reason != "the disk is full" {
		t.Errorf("%s, %+v", shown, f.Restores)
	}
	if status.Free <= 0 || status.Paused {
		t.Errorf("%+v", status)
	}
}
