package cap

import (
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to a record survives every command that changes it,
// unless it is one of those that the command is about.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	w := newWorld(t)
	w.climate()
	recordstest.Survives(t, w.caps, "default/climate", func() {
		w.must(alice, "cap.declare", `{"cap_id":"climate","skill_id":"heating","cap_name":"Another","cap_desc":"d","cap_type":"DATA","max_members":5}`)
	}, "Name", "Description", "Type", "MaxMembers", "Storage", "LinkType", "Scenes", "DiskPath", "GroupFile", "LinksFile",
		"Sync", "SyncEvery", "SyncType", "Conflict", "UpdatedAt")
	recordstest.Survives(t, w.caps, "default/climate", func() {
		w.must(alice, "cap.update", `{"cap_id":"climate","cap_info":{"cap_name":"Third"}}`)
	}, "Name", "UpdatedAt")
	for command, params := range map[string]string{
		"group.member.add":    `{"cap_id":"climate","group_id":"up","skill_id":"another","role":"guest"}`,
		"group.member.update": `{"cap_id":"climate","group_id":"up","skill_id":"lamp","role":"guest"}`,
	} {
		t.Run(command, func(t *testing.T) {
			recordstest.Survives(t, w.groups, "default/climate/up", func() { w.must(alice, command, params) }, "Members", "-Links", "-Selector")
		})
	}
	recordstest.Survives(t, w.groups, "default/climate/up", func() {
		w.must(alice, "group.member.remove", `{"cap_id":"climate","group_id":"up","skill_id":"lamp"}`)
	}, "Members", "-Links", "-Selector")
}
