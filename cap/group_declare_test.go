package cap

import (
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestAGroupMayBeASelector(t *testing.T) {
	w := newWorld(t)
	w.directory.tagged = map[protocol.SpaceID]map[protocol.AgentID]tags{
		"default": {"a": {"site": "hall"}, "b": {"site": "hall", "model": "x2"}, "c": {"site": "attic"}},
		"lab":     {"d": {"site": "hall"}},
	}
	w.must(alice, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"heating"}`)
	const at = `"group_id":"hall","cap_id":"home"`
	if got := w.must(alice, "group.declare", `{`+at+`,"selector":" site = hall "}`); got["selector"] != "site=hall" || got["selected"] != 2.0 {
		t.Errorf("declared as %v", got)
	}
	if got := w.must(alice, "group.query", `{`+at+`}`); got["selector"] != "site=hall" || got["selected"] != 2.0 || len(got["members"].([]any)) != 0 {
		t.Errorf("it is %v", got)
	}
	if got := w.must(alice, "group.declare", `{`+at+`,"selector":"site=hall,model"}`); got["selected"] != 1.0 {
		t.Errorf("declared again as %v", got)
	}
	w.must(alice, "group.data.set", `{"data_key":"k","data_value":"v","data_type":"string",`+at+`}`)
	w.refused(protocol.InvalidState, alice, "group.member.add", `{"skill_id":"a-skill","role":"r",`+at+`}`)
	w.refused(protocol.InvalidState, alice, "group.member.remove", `{"skill_id":"a-skill",`+at+`}`)
	w.refused(protocol.NotFound, alice, "group.link.add", `{"source_skill_id":"a-skill","target_skill_id":"b-skill","link_type":"x",`+at+`}`)
	w.refused(protocol.PermissionDenied, bob, "group.query", `{`+at+`}`)
	w.refused(protocol.PermissionDenied, bob, "group.declare", `{`+at+`,"selector":"site"}`)
	w.refused(protocol.PermissionDenied, bob, "group.remove", `{`+at+`}`)
	w.refused(protocol.NotFound, carol, "group.declare", `{`+at+`,"selector":"site"}`)
	if err := w.refused(protocol.InvalidParameter, alice, "group.declare", `{`+at+`,"selector":"site=hall or"}`); err.Details["param_name"] != "selector" || err.Details["position"] != 11 {
		t.Errorf("%v", err.Details)
	}
	if p, ok := w.Snapshot("default", "home"); !ok || len(p.Groups) != 0 || len(p.Data) != 0 {
		t.Errorf("the files have %v", p.Groups)
	}
	eventually.Holds(t, "the value is retained", func() bool { return w.kept("aibridge/cap/home/data/hall/k") != "" })
	w.must(alice, "group.remove", `{`+at+`}`)
	w.refused(protocol.NotFound, alice, "group.remove", `{`+at+`}`)
	eventually.Holds(t, "the value is withdrawn", func() bool { return w.kept("aibridge/cap/home/data/hall/k") == "" })
}

func TestAGroupIsEitherOrTheOther(t *testing.T) {
	w := newWorld(t)
	w.climate()
	w.refused(protocol.AlreadyExists, alice, "group.declare", `{"group_id":"up","cap_id":"climate","selector":"site"}`)
	w.must(alice, "group.remove", `{"group_id":"up","cap_id":"climate"}`)
	eventually.Holds(t, "its members are told to be gone", func() bool { return w.told("climate/event group.member.removed") })
	w.must(alice, "group.declare", `{"group_id":"up","cap_id":"climate","selector":"site"}`)
	w.must(alice, "cap.remove", `{"cap_id":"climate","force":true}`)
}
