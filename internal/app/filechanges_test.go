package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// heard is the next event on a topic.
func heard(t *testing.T, p *paho.Publish) (name string, change vfs.FileChange) {
	t.Helper()
	var e struct {
		Name string         `json:"event"`
		Data vfs.FileChange `json:"data"`
	}
	if err := json.Unmarshal(p.Payload, &e); err != nil {
		t.Fatalf("%s: %v", p.Payload, err)
	}
	return e.Name, e.Data
}

func TestChangesOfFilesAreToldToThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	camera, other := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent), h.key(protocol.KindAgent, "other", protocol.RoleEndAgent)
	listens, stranger := h.connect("camera-client", camera), h.connect("other-client", other)
	const topic = "aibridge/vfs/pictures/event"
	run := func(command, params string) {
		t.Helper()
		if code, body := h.run(camera, command, params); code != "" {
			t.Fatalf("%s %s: %s", command, params, body)
		}
	}
	if got := subscribe(t, listens, topic); got != 0x87 {
		t.Errorf("a group that nobody has written to: %#x", got)
	}
	run("vfs.sync.to", `{"group_name":"pictures","files":[{"path":"hall/1","content":"one"},{"path":"hall/2","content":"two"}]}`)
	for name, filter := range map[string]string{"somebody else's": topic, "everybody's": "aibridge/vfs/+/event", "more than the event": "aibridge/vfs/pictures/event/#"} {
		if got := subscribe(t, stranger, filter); got != 0x87 {
			t.Errorf("%s: %#x", name, got)
		}
	}
	if got := subscribe(t, listens, topic); got != 1 {
		t.Fatalf("its own: %#x", got)
	}
	told := func(want string) {
		t.Helper()
		name, change := heard(t, listens.Next(t))
		if got := strings.Join([]string{name, change.Group, change.Path}, " "); got != want {
			t.Errorf("told is %s, not %s", got, want)
		}
	}
	run("vfs.sync.to", `{"group_name":"pictures","files":[{"path":"hall/1","content":"another"}]}`)
	told("vfs.put pictures hall/1")
	run("vfs.sync.to", `{"group_name":"pictures","files":[{"path":"hall/1","content":"another"}]}`) // which changes nothing
	run("vfs.move", `{"group_name":"pictures","path":"hall/1","to_path":"attic/1"}`)
	told("vfs.put pictures attic/1")
	told("vfs.deleted pictures hall/1")
	run("vfs.delete", `{"group_name":"pictures","path":"attic","recursive":true}`)
	told("vfs.deleted pictures attic/1")
}

func TestFilesAreCopiedAndMovedByCommand(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	camera, other := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent), h.key(protocol.KindAgent, "other", protocol.RoleEndAgent)
	write := func(key, group string, files ...string) {
		t.Helper()
		for _, path := range files {
			if code, body := h.run(key, "vfs.sync.to", `{"group_name":"`+group+`","files":[{"path":"`+path+`","content":"of `+path+`"}]}`); code != "" {
				t.Fatal(body)
			}
		}
	}
	write(camera, "pictures", "hall/1", "hall/deep/2", "plan")
	write(other, "secrets", "key")
	for _, c := range []struct {
		what, command, params string
		code                  protocol.Code
		has                   string
	}{
		{"a file", "vfs.copy", `{"group_name":"pictures","path":"plan","to_path":"archive/plan"}`, "", `"files":1`},
		{"onto another", "vfs.copy", `{"group_name":"pictures","path":"hall/1","to_path":"archive/plan"}`, protocol.RevisionConflict, "archive/plan"},
		{"onto another that may go", "vfs.copy", `{"group_name":"pictures","path":"hall/1","to_path":"archive/plan","overwrite":true}`, "", `"size":9`},
		{"to another group", "vfs.move", `{"group_name":"pictures","path":"archive/plan","to_group_name":"attic","to_path":"plan"}`, "", `"group_name":"attic"`},
		{"a folder", "vfs.move", `{"group_name":"pictures","path":"hall","to_path":"cellar","recursive":true}`, "", `"files":2`},
		{"a folder into itself", "vfs.move", `{"group_name":"pictures","path":"cellar","to_path":"cellar/deep","recursive":true}`, protocol.InvalidParameter, "to_path"},
		{"what is not there", "vfs.move", `{"group_name":"pictures","path":"hall","to_path":"x","recursive":true}`, protocol.FileNotFound, "hall"},
		{"onto itself", "vfs.copy", `{"group_name":"pictures","path":"plan","to_path":"plan"}`, protocol.InvalidParameter, "to_path"},
		{"a way out", "vfs.copy", `{"group_name":"pictures","path":"plan","to_path":"../plan"}`, protocol.InvalidParameter, "to_path"},
		{"somebody else's", "vfs.copy", `{"group_name":"secrets","path":"key","to_group_name":"pictures","to_path":"key"}`, protocol.FileNotFound, "key"},
		{"somebody else's away", "vfs.move", `{"group_name":"secrets","path":"key","to_group_name":"pictures","to_path":"key"}`, protocol.FileNotFound, "key"},
		{"to somebody else", "vfs.copy", `{"group_name":"pictures","path":"plan","to_group_name":"secrets","to_path":"plan"}`, protocol.VFSPermission, "secrets"},
		{"from a group without files", "vfs.move", `{"group_name":"nothing","path":"f","to_path":"g"}`, protocol.FileNotFound, "nothing"},
		{"a folder away", "vfs.delete", `{"group_name":"pictures","path":"cellar","recursive":true}`, "", `"deleted":2`},
		{"a folder by id", "vfs.delete", `{"group_name":"pictures","file_id":"x","recursive":true}`, protocol.InvalidParameter, "recursive"},
	} {
		code, body := h.run(camera, c.command, c.params)
		if code != c.code || !strings.Contains(body, c.has) {
			t.Errorf("%s: %s %s, want %s with %s", c.what, code, body, c.code, c.has)
		}
	}
	write(other, "nothing", "free") // it was claimed by nobody
	blind := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent, `,"scopes":["vfs:read","vfs:write","vfs:delete"]`)
	for command, recursive := range map[string]bool{"vfs.copy": false, "vfs.move": true} {
		code, body := h.run(blind, command, fmt.Sprintf(`{"group_name":"pictures","path":"plan","to_path":"names","recursive":%t}`, recursive))
		if recursive != (code == protocol.PermissionDenied) {
			t.Errorf("%s of who may not list: %s %s", command, code, body)
		}
	}
	if code, body := h.run(camera, "vfs.delete", `{"group_name":"pictures","path":"names"}`); code != "" {
		t.Errorf("%s %s", code, body)
	}
	if code, body := h.run(camera, "vfs.list", `{"group_name":"pictures"}`); code != "" || strings.Count(body, `"path"`) != 1 || !strings.Contains(body, `"plan"`) {
		t.Errorf("%s %s", code, body)
	}
}
