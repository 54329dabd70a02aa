package cap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestACapIsDeclaredWithLittleAndGetsTheDefaults(t *testing.T) {
	w := newWorld(t)
	got := w.must(alice, "cap.declare", `{"cap_id":"test_cap","cap_name":"Test Cap","skill_id":"heating"}`)
	if got["cap_id"] != "test_cap" || got["revision"].(float64) == 0 {
		t.Errorf("got %v", got)
	}
	listed := w.must(alice, "cap.query", `{}`)["caps"].([]any)[0].(map[string]any)
	for field, want := range map[string]any{
		"cap_type": "generic", "max_members": 100.0, "data_storage_type": "json", "link_type": "bidirectional",
		"disk_path": "test_cap/disk", "group_file_path": "test_cap/group.json", "links_file_path": "test_cap/links.json",
		"sync_enabled": true, "sync_interval": 60.0, "status": "active", "skill_id": "heating",
	} {
		if listed[field] != want {
			t.Errorf("%s is %v, want %v", field, listed[field], want)
		}
	}
}

func TestACapDeclaredAgainIsReplacedAndKeepsItsGroups(t *testing.T) {
	w := newWorld(t)
	w.climate()
	first := w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","max_members":3}`)["revision"]
	if again := w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","max_members":3}`)["revision"]; again != first {
		t.Errorf("declared the same again: revision %v after %v", again, first)
	}
	if changed := w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Cool","skill_id":"heating","max_members":2}`)["revision"]; changed == first {
		t.Error("a changed declaration has the old revision")
	}
	if n := len(w.must(alice, "group.query", `{"group_id":"up","cap_id":"climate"}`)["members"].([]any)); n != 2 {
		t.Errorf("%d members are left", n)
	}
	w.refused(protocol.LimitReached, alice, "cap.declare", `{"cap_id":"climate","cap_name":"Cool","skill_id":"heating","max_members":1}`)
}

func TestOnlyTheOwnerChangesACap(t *testing.T) {
	w := newWorld(t)
	w.climate()
	for _, test := range []struct {
		who     *protocol.Principal
		command string
		params  string
		code    protocol.Code
	}{
		{bob, "cap.declare", `{"cap_id":"climate","cap_name":"Mine","skill_id":"lamp"}`, protocol.AlreadyExists},
		{bob, "cap.declare", `{"cap_id":"other","cap_name":"Mine","skill_id":"heating"}`, protocol.PermissionDenied},
		{bob, "cap.update", `{"cap_id":"climate","cap_info":{"cap_name":"Mine"}}`, protocol.PermissionDenied},
		{bob, "cap.remove", `{"cap_id":"climate","force":true}`, protocol.PermissionDenied},
		{bob, "group.member.add", `{"group_id":"up","skill_id":"x","role":"r","cap_id":"climate"}`, protocol.PermissionDenied},
		{bob, "group.member.remove", `{"group_id":"up","skill_id":"sensor","cap_id":"climate"}`, protocol.PermissionDenied},
		{bob, "group.link.add", `{"group_id":"up","source_skill_id":"sensor","target_skill_id":"lamp","link_type":"l","cap_id":"climate"}`, protocol.PermissionDenied},
		{carol, "cap.update", `{"cap_id":"climate","cap_info":{}}`, protocol.NotFound},
		{carol, "cap.remove", `{"cap_id":"climate"}`, protocol.NotFound},
		{carol, "group.query", `{"group_id":"up","cap_id":"climate"}`, protocol.NotFound},
	} {
		w.refused(test.code, test.who, test.command, test.params)
	}
	w.must(carol, "cap.declare", `{"cap_id":"climate","cap_name":"Ours","skill_id":"anything"}`) // another space
	w.must(root, "cap.update", `{"cap_id":"climate","cap_info":{"cap_name":"Root's"}}`)
	w.must(bob, "group.member.remove", `{"group_id":"up","skill_id":"lamp","cap_id":"climate"}`) // his own may leave
}

func TestAnUpdateNamesItsFieldsAndComparesRevisions(t *testing.T) {
	w := newWorld(t)
	revision := w.must(alice, "cap.declare", `{"cap_id":"c","cap_name":"C","skill_id":"heating"}`)["revision"]
	got := w.must(alice, "cap.update", fmt.Sprintf(`{"cap_id":"c","cap_info":{"sync_interval":30,"cap_name":"D"},"revision":%v}`, revision))
	if fmt.Sprint(got["updated_fields"]) != "[cap_name sync_interval]" {
		t.Errorf("updated %v", got["updated_fields"])
	}
	w.refused(protocol.RevisionConflict, alice, "cap.update", fmt.Sprintf(`{"cap_id":"c","cap_info":{"cap_name":"E"},"revision":%v}`, revision))
	if err := w.refused(protocol.InvalidParameter, alice, "cap.update", `{"cap_id":"c","cap_info":{"skill_id":"x"}}`); !strings.Contains(fmt.Sprint(err.Details["param_name"]), "skill_id") {
		t.Errorf("details %v", err.Details)
	}
}

func TestPathsStayInTheCapsOwnArea(t *testing.T) {
	for path, want := range map[string]string{
		"/var/cap_data/x": "var/cap_data/x",
		"a//b/./c":        "a/b/c",
		"group.json":      "group.json",
		"..":              "", "a/../../b": "", "/": "", ".": "", "a/..": "", `a\b`: "", "C:/x": "", "a/b. ": "", "a\x00b": "",
	} {
		if got, reason := areaPath(path); got != want || (want == "") != (reason != "") {
			t.Errorf("%q becomes %q (%s), want %q", path, got, reason, want)
		}
	}
	w := newWorld(t)
	err := w.refused(protocol.InvalidParameter, alice, "cap.declare", `{"cap_id":"c","cap_name":"C","skill_id":"heating","disk_path":"../../etc"}`)
	if err.Details["param_name"] != "disk_path" {
		t.Errorf("details %v", err.Details)
	}
	w.must(alice, "cap.declare", `{"cap_id":"c","cap_name":"C","skill_id":"heating"}`)
	err = w.refused(protocol.InvalidParameter, alice, "cap.update", `{"cap_id":"c","cap_info":{"links_file_path":"a/../b"}}`)
	if err.Details["param_name"] != "cap_info.links_file_path" {
		t.Errorf("details %v", err.Details)
	}
}

func TestOfAnInactiveCapNothingIsChangedButItself(t *testing.T) {
	w := newWorld(t)
	w.climate()
	w.must(alice, "cap.update", `{"cap_id":"climate","cap_info":{"status":"inactive"}}`)
	w.refused(protocol.InvalidState, alice, "group.member.add", `{"group_id":"up","skill_id":"x","role":"r","cap_id":"climate"}`)
	w.refused(protocol.InvalidState, alice, "group.data.set", `{"group_id":"up","data_key":"k","data_value":1,"data_type":"number","cap_id":"climate"}`)
	w.refused(protocol.InvalidState, alice, "group.link.add", `{"group_id":"up","source_skill_id":"sensor","target_skill_id":"lamp","link_type":"l","cap_id":"climate"}`)
	if w.MayUseChannel(sensor, "climate", true) || !w.MayUseChannel(sensor, "climate", false) {
		t.Error("the channel of an inactive Cap can be listened to, not spoken on")
	}
	w.must(alice, "cap.update", `{"cap_id":"climate","cap_info":{"status":"active"}}`)
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"x","role":"r","cap_id":"climate"}`)
}

func TestACapIsRemovedEmptyOrByForce(t *testing.T) {
	w := newWorld(t)
	w.climate()
	w.must(alice, "group.data.set", `{"group_id":"up","data_key":"k","data_value":1,"data_type":"number","cap_id":"climate"}`)
	w.refused(protocol.InvalidState, alice, "cap.remove", `{"cap_id":"climate"}`)
	w.must(alice, "cap.remove", `{"cap_id":"climate","force":true}`)
	if w.caps.Len()+w.groups.Len()+w.data.Len() != 0 || w.batches != 1 {
		t.Errorf("left: %d %d %d after %d batches", w.caps.Len(), w.groups.Len(), w.data.Len(), w.batches)
	}
	eventually.Holds(t, "the retained value goes", func() bool { return w.kept("aibridge/cap/climate/data/up/k") == "" })
	eventually.Holds(t, "it is told", func() bool { return w.told("climate/event cap.removed") })
	if len(w.index.caps) != 0 || len(w.index.knowing) != 0 {
		t.Errorf("the index holds on to %v, %v", w.index.caps, w.index.knowing)
	}
	w.refused(protocol.NotFound, alice, "cap.remove", `{"cap_id":"climate"}`)
}

func TestCapsAreListedInPages(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.must(alice, "cap.declare", fmt.Sprintf(`{"cap_id":"c%d","cap_name":"C","skill_id":"heating"}`, i))
	}
	w.must(bob, "cap.declare", `{"cap_id":"b","cap_name":"B","skill_id":"lamp"}`)
	var ids []string
	cursor := ""
	for {
		page := w.must(alice, "cap.query", fmt.Sprintf(`{"skill_id":"heating","limit":2%s}`, cursor))
		for _, c := range page["caps"].([]any) {
			ids = append(ids, c.(map[string]any)["cap_id"].(string))
		}
		next, more := page["next_cursor"]
		if !more {
			break
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, next)
	}
	if fmt.Sprint(ids) != "[c0 c1 c2 c3 c4]" {
		t.Errorf("listed %v", ids)
	}
}

func TestCapsAreFoundAndSorted(t *testing.T) {
	w := newWorld(t)
	w.must(alice, "cap.declare", `{"cap_id":"one","cap_name":"Zoo","skill_id":"heating"}`)
	w.must(alice, "cap.declare", `{"cap_id":"two","cap_name":"Attic","cap_desc":"under the roof","skill_id":"heating"}`)
	w.must(bob, "cap.declare", `{"cap_id":"three","cap_name":"Lamps","skill_id":"lamp"}`)
	w.must(alice, "group.member.add", `{"group_id":"g","skill_id":"lamp","role":"actor","cap_id":"two"}`)
	w.must(bob, "cap.update", `{"cap_id":"three","cap_info":{"status":"inactive"}}`)
	for _, x := range []struct {
		who          *protocol.Principal
		params, want string
	}{
		{alice, `{"sort":"name"}`, "[two three one]"},
		{alice, `{"sort":"-groups","limit":1}`, "[two]"},
		{alice, `{"find":"ROOF"}`, "[two]"},
		{alice, `{"status":"inactive"}`, "[three]"},
		{alice, `{"cap_id":"one","status":"inactive"}`, "[]"},
		{carol, `{}`, "[]"},
		{carol, `{"cap_id":"one"}`, "[]"},
	} {
		ids := []string{}
		for _, c := range w.must(x.who, "cap.query", x.params)["caps"].([]any) {
			ids = append(ids, c.(map[string]any)["cap_id"].(string))
		}
		if fmt.Sprint(ids) != x.want {
			t.Errorf("%s with %s lists %v, want %s", x.who.ID, x.params, ids, x.want)
		}
	}
}
