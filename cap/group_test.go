package cap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestAGroupIsBornWithItsFirstMemberAndEndsWithItsLast(t *testing.T) {
	w := newWorld(t)
	w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating"}`)
	const at = `"group_id":"up","cap_id":"climate"`
	w.refused(protocol.NotFound, alice, "group.query", `{`+at+`}`)
	w.must(alice, "group.member.add", `{"skill_id":"sensor","role":"sensor",`+at+`}`)
	w.must(alice, "group.data.set", `{"data_key":"k","data_value":"v","data_type":"string",`+at+`}`)
	eventually.Holds(t, "the value is retained", func() bool { return w.kept("aibridge/cap/climate/data/up/k") != "" })
	if got := w.must(alice, "group.member.remove", `{"skill_id":"sensor",`+at+`}`); got["revision"] != 0.0 || got["role"] != "sensor" {
		t.Errorf("got %v", got)
	}
	w.refused(protocol.NotFound, alice, "group.query", `{`+at+`}`)
	w.refused(protocol.NotFound, alice, "group.data.get", `{"data_key":"k",`+at+`}`)
	eventually.Holds(t, "the value is withdrawn", func() bool { return w.kept("aibridge/cap/climate/data/up/k") == "" })
	for _, e := range []string{"group.member.added", "group.data.set", "group.data.removed", "group.member.removed"} {
		eventually.Holds(t, e, func() bool { return w.told("climate/event " + e) })
	}
	if len(w.lost) != 1 || w.batches != 1 {
		t.Errorf("lost %v, %d batches", w.lost, w.batches)
	}
}

func TestMembersAreCountedAndUnique(t *testing.T) {
	w := newWorld(t)
	w.climate()
	const add = `{"group_id":"up","skill_id":%q,"role":"r","cap_id":"climate"}`
	w.refused(protocol.AlreadyExists, alice, "group.member.add", fmt.Sprintf(add, "lamp"))
	w.must(alice, "group.member.add", fmt.Sprintf(add, "third"))
	if err := w.refused(protocol.LimitReached, alice, "group.member.add", fmt.Sprintf(add, "fourth")); err.Details["limit"] != 3 {
		t.Errorf("details %v", err.Details)
	}
	w.refused(protocol.NotFound, alice, "group.member.remove", `{"group_id":"up","skill_id":"nobody","cap_id":"climate"}`)
	w.refused(protocol.NotFound, alice, "group.member.remove", `{"group_id":"down","skill_id":"lamp","cap_id":"climate"}`)
	w.refused(protocol.InvalidParameter, alice, "group.member.add", fmt.Sprintf(add, "a/../b"))
	w.refused(protocol.NotFound, alice, "group.member.add", `{"group_id":"up","skill_id":"x","role":"r","cap_id":"none"}`)
}

func TestManyJoinAtOnceAndNobodyIsLost(t *testing.T) {
	w := newWorld(t)
	w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","max_members":20}`)
	var all sync.WaitGroup
	call := &commands.Call{Principal: alice}
	for i := range 8 {
		all.Go(func() {
			if _, err := w.AddMember(context.Background(), call, MemberAddParams{Group: "up", Skill: protocol.SkillID(fmt.Sprint(i)), Role: "r", Cap: "climate"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(w.must(alice, "group.query", `{"group_id":"up","cap_id":"climate"}`)["members"].([]any)); n != 8 {
		t.Errorf("%d members", n)
	}
}

func TestGroupsAreListedToThoseWhoTakePart(t *testing.T) {
	w := newWorld(t)
	w.climate()
	w.must(alice, "cap.declare", `{"cap_id":"light","cap_name":"Light","skill_id":"heating"}`)
	w.must(alice, "group.member.add", `{"group_id":"hall","skill_id":"sensor","role":"sensor","cap_id":"light"}`)
	w.must(alice, "group.data.set", `{"group_id":"hall","cap_id":"light","data_key":"lux","data_type":"number","data_value":3}`)
	listed := func(who *protocol.Principal, params string) string {
		t.Helper()
		var names []string
		for _, g := range w.must(who, "group.list", params)["groups"].([]any) {
			g := g.(map[string]any)
			names = append(names, fmt.Sprintf("%v/%v %v of %v, %v values", g["cap_id"], g["group_id"], g["online"], g["members"], g["data"]))
		}
		return strings.Join(names, "; ")
	}
	const up, hall = "climate/up 1 of 2, 0 values", "light/hall 0 of 1, 1 values"
	for _, x := range []struct {
		who          *protocol.Principal
		params, want string
	}{
		{alice, `{}`, up + "; " + hall},
		{alice, `{"sort":"members"}`, hall + "; " + up},
		{alice, `{"cap_id":"light"}`, hall},
		{alice, `{"find":"UP"}`, up},
		{alice, `{"limit":1}`, up},
		{bob, `{}`, up}, // speaks for the lamp
		{carol, `{}`, ""},
	} {
		if got := listed(x.who, x.params); got != x.want {
			t.Errorf("%s with %s lists %q, want %q", x.who.ID, x.params, got, x.want)
		}
	}
}

func TestLinksJoinMembersAndGoWithThem(t *testing.T) {
	w := newWorld(t)
	w.climate()
	const link = `{"group_id":"up","source_skill_id":%q,"target_skill_id":%q,"link_type":"data","cap_id":"climate"}`
	links := func() string {
		result, err := w.ask(alice, "group.query", `{"group_id":"up","cap_id":"climate"}`)
		if err != nil {
			t.Fatal(err)
		}
		var g GroupQueryResult
		if err := json.Unmarshal(result, &g); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, l := range g.Links {
			all = append(all, fmt.Sprintf("%s>%s", l.Source, l.Target))
		}
		return strings.Join(all, " ")
	}
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"third","role":"r","cap_id":"climate"}`)
	w.must(alice, "group.link.add", fmt.Sprintf(link, "sensor", "lamp"))
	if got := links(); got != "sensor>lamp lamp>sensor" {
		t.Errorf("a bidirectional Cap has %s", got)
	}
	w.refused(protocol.AlreadyExists, alice, "group.link.add", fmt.Sprintf(link, "lamp", "sensor"))
	w.refused(protocol.NotFound, alice, "group.link.add", fmt.Sprintf(link, "lamp", "stranger"))
	w.refused(protocol.InvalidParameter, alice, "group.link.add", fmt.Sprintf(link, "lamp", "lamp"))
	w.must(bob, "group.link.add", fmt.Sprintf(link, "lamp", "third")) // bob speaks for the lamp
	w.must(alice, "group.link.add", fmt.Sprintf(link, "third", "sensor"))
	const unlink = `{"group_id":"up","source_skill_id":"sensor","target_skill_id":"lamp","cap_id":"climate"}`
	if got := w.must(alice, "group.link.remove", unlink); got["link_type"] != "data" {
		t.Errorf("got %v", got)
	}
	w.refused(protocol.NotFound, alice, "group.link.remove", unlink)
	w.must(alice, "group.member.remove", `{"group_id":"up","skill_id":"third","cap_id":"climate"}`)
	if got := links(); got != "" {
		t.Errorf("left: %s", got)
	}
	w.must(alice, "cap.update", `{"cap_id":"climate","cap_info":{"link_type":"one_way"}}`)
	w.must(alice, "group.link.add", fmt.Sprintf(link, "sensor", "lamp"))
	if got := links(); got != "sensor>lamp" {
		t.Errorf("a one-way Cap has %s", got)
	}
	eventually.Holds(t, "links are told", func() bool {
		return w.told("climate/event group.link.added") && w.told("climate/event group.link.removed")
	})
}

func TestDataIsWhatItsTypeSays(t *testing.T) {
	w := newWorld(t)
	w.climate()
	const set = `{"group_id":"up","data_key":"k","data_value":%s,"data_type":%q,"cap_id":"climate"}`
	for _, good := range [][2]string{
		{`"a"`, "string"}, {`21.5`, "number"}, {`-1e9`, "number"}, {`true`, "boolean"}, {`{"a":[1]}`, "object"},
		{`[]`, "array"}, {`1`, "integer"}, {`1.5`, "float"}, {`[true]`, "json"}, {`"AAEC/w=="`, "binary"}, {`""`, "binary"},
	} {
		got := w.must(alice, "group.data.set", fmt.Sprintf(set, good[0], good[1]))
		again := w.must(alice, "group.data.get", `{"group_id":"up","data_key":"k","cap_id":"climate"}`)
		if fmt.Sprint(got["data_value"]) != fmt.Sprint(again["data_value"]) || again["revision"] != got["revision"] || again["updated_by"] != "alice" {
			t.Errorf("set %v, got %v", got, again)
		}
	}
	for _, bad := range [][2]string{
		{`"1"`, "number"}, {`1`, "string"}, {`1`, "boolean"}, {`[]`, "object"}, {`{}`, "array"}, {`"not base64!"`, "binary"},
		{`"AAEC/w"`, "binary"}, {`12`, "binary"}, {`1.5`, "integer"}, {`1`, "int"}, {`null`, "object"}, {`null`, "json"},
	} {
		w.refused(protocol.InvalidParameter, alice, "group.data.set", fmt.Sprintf(set, bad[0], bad[1]))
	}
	w.refused(protocol.PayloadTooLarge, alice, "group.data.set", fmt.Sprintf(set, `"`+strings.Repeat("x", maxValue)+`"`, "string"))
	w.refused(protocol.InvalidParameter, alice, "group.data.set", `{"group_id":"up","data_key":"a/b","data_value":1,"data_type":"number","cap_id":"climate"}`)
	w.refused(protocol.NotFound, alice, "group.data.get", `{"group_id":"up","data_key":"none","cap_id":"climate"}`)
	w.refused(protocol.PermissionDenied, carolAt(protocol.DefaultSpace), "group.data.get", `{"group_id":"up","data_key":"k","cap_id":"climate"}`)
}

func carolAt(space protocol.SpaceID) *protocol.Principal {
	c := *carol
	c.Space = space
	return &c
}

func TestOfTwoWritersWithOneRevisionOneWins(t *testing.T) {
	w := newWorld(t)
	w.climate()
	const set = `{"group_id":"up","data_key":"k","data_value":%d,"data_type":"number","cap_id":"climate","revision":%v}`
	first := w.must(sensor, "group.data.set", fmt.Sprintf(set, 1, 0))["revision"]
	w.refused(protocol.RevisionConflict, alice, "group.data.set", fmt.Sprintf(set, 2, 0))
	w.must(sensor, "group.data.set", fmt.Sprintf(set, 2, first))
	w.refused(protocol.RevisionConflict, alice, "group.data.set", fmt.Sprintf(set, 3, first))

	held := w.must(alice, "group.data.get", `{"group_id":"up","data_key":"k","cap_id":"climate"}`)["revision"]
	w.data.Before(func(string) { // somebody is faster, after the look and before the write
		if _, err := w.data.Put(t.Context(), "default/climate/up/k", &Datum{Space: "default", Cap: "climate", Group: "up", Key: "k", Type: Number, Value: []byte("9")}); err != nil {
			t.Error(err)
		}
	})
	w.refused(protocol.RevisionConflict, alice, "group.data.set", fmt.Sprintf(set, 4, held))
	if got := w.must(alice, "group.data.get", `{"group_id":"up","data_key":"k","cap_id":"climate"}`); got["data_value"] != 9.0 {
		t.Errorf("the slower one won: %v", got)
	}
}

func TestTheLastValueIsRetainedOnItsTopic(t *testing.T) {
	w := newWorld(t)
	w.climate()
	for i := range 20 {
		w.must(sensor, "group.data.set", fmt.Sprintf(`{"group_id":"up","data_key":"k","data_value":%d,"data_type":"number","cap_id":"climate"}`, i))
	}
	eventually.Holds(t, "the last value", func() bool {
		var v DataGetResult
		return json.Unmarshal([]byte(w.kept("aibridge/cap/climate/data/up/k")), &v) == nil && string(v.Value) == "19" && v.UpdatedBy == "sensor"
	})
}

func TestTheChannelIsForMembers(t *testing.T) {
	w := newWorld(t)
	w.climate()
	for who, want := range map[*protocol.Principal]bool{
		alice: true, sensor: true, hub: true, // hub serves the lamp
		bob: false, carol: false,
		{Kind: protocol.KindOperator, ID: "sensor", Space: protocol.DefaultSpace}: false,
		{Kind: protocol.KindSkill, ID: "sensor", Space: "lab"}:                    false,
		{Kind: protocol.KindSkill, ID: "heating", Space: protocol.DefaultSpace}:   true,
	} {
		if got := w.MayUseChannel(who, "climate", true); got != want {
			t.Errorf("%s %s of %s: %v", who.Kind, who.ID, who.Space, got)
		}
	}
	if w.MayUseChannel(sensor, "none", true) {
		t.Error("a Cap that is not there has a channel")
	}
	w.must(sensor, "group.member.remove", `{"group_id":"up","skill_id":"sensor","cap_id":"climate"}`)
	if w.MayUseChannel(sensor, "climate", false) || len(w.lost) != 1 {
		t.Errorf("who left still listens; lost %v", w.lost)
	}
	w.SkillChanged(protocol.DefaultSpace, "lamp")
	if len(w.lost) != 2 {
		t.Errorf("lost %v", w.lost)
	}
}

// A recorder notes what is dispatched.
type recorder struct{ orders []dispatch.Order }

func (r *recorder) Start(_ context.Context, o dispatch.Order) (dispatch.View, error) {
	r.orders = append(r.orders, o)
	return dispatch.View{Dispatch: &dispatch.Dispatch{ID: "task"}}, nil
}

// asked lists whom the last dispatch goes to.
func (r *recorder) asked() (skills []protocol.SkillID) {
	for _, m := range r.orders[len(r.orders)-1].Members {
		skills = append(skills, m.Skill)
	}
	return skills
}

func TestMembersAreChosenByTheirAttributes(t *testing.T) {
	w := newWorld(t)
	recorder := &recorder{}
	w.opts.Dispatcher = recorder
	w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating"}`)
	add := func(skill, attributes string) {
		w.must(alice, "group.member.add", fmt.Sprintf(`{"group_id":"up","skill_id":%q,"role":"lamp","attributes":%s,"cap_id":"climate"}`, skill, attributes))
	}
	add("a", `{"floor":"1","made":"tin"}`)
	add("b", `{"floor":"1"}`)
	add("c", `{"floor":"2","made":""}`)
	for target, want := range map[string][]protocol.SkillID{
		`{"attributes":{"floor":"1"}}`:                   {"a", "b"},
		`{"attributes":{"floor":"1","made":"tin"}}`:      {"a"},
		`{"attributes":{"made":""}}`:                     {"c"},
		`{"attributes":{}}`:                              {"a", "b", "c"},
		`{"attributes":{"floor":"1"},"skill_ids":["b"]}`: {"b"},
		`{"attributes":{"floor":"2"},"role":"lamp"}`:     {"c"},
	} {
		w.must(alice, "group.dispatch", `{"group_id":"up","cap_id":"climate","capability_id":"on","target":`+target+`}`)
		if got := recorder.asked(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are asked, want %v", target, got, want)
		}
	}
	w.refused(protocol.NotFound, alice, "group.dispatch", `{"group_id":"up","cap_id":"climate","capability_id":"on","target":{"attributes":{"floor":"3"}}}`)
}

func TestWhatIsSaidAboutAMemberCanBeChanged(t *testing.T) {
	w := newWorld(t)
	w.climate()
	const lamp = `"group_id":"up","skill_id":"lamp","cap_id":"climate"`
	member := func() string {
		members := w.must(alice, "group.query", `{"group_id":"up","cap_id":"climate"}`)["members"].([]any)
		m := members[1].(map[string]any)
		return fmt.Sprintf("%v %v", m["role"], m["attributes"])
	}
	before := w.must(alice, "group.member.update", `{`+lamp+`,"attributes":{"floor":"2"}}`)
	if got := member(); got != "actor map[floor:2]" {
		t.Errorf("with attributes: %s", got)
	}
	if again := w.must(alice, "group.member.update", `{`+lamp+`,"attributes":{"floor":"2"}}`); again["revision"] != before["revision"] {
		t.Errorf("the same again makes revision %v of %v", again["revision"], before["revision"])
	}
	w.must(alice, "group.member.update", `{`+lamp+`,"role":"light"}`)
	if got := member(); got != "light map[floor:2]" {
		t.Errorf("in another role: %s", got)
	}
	w.must(alice, "group.member.update", `{`+lamp+`,"attributes":{}}`)
	if got := member(); got != "light <nil>" {
		t.Errorf("without attributes: %s", got)
	}
	eventually.Holds(t, "the change is told", func() bool { return w.told("climate/event group.member.updated") })
	w.refused(protocol.PermissionDenied, bob, "group.member.update", `{`+lamp+`,"role":"light"}`)
	w.refused(protocol.NotFound, alice, "group.member.update", `{"group_id":"up","skill_id":"nobody","cap_id":"climate","role":"r"}`)
	w.refused(protocol.NotFound, alice, "group.member.update", `{"group_id":"down","skill_id":"lamp","cap_id":"climate","role":"r"}`)
}

func TestAttributesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.climate()
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = ""
	}
	for name, attributes := range map[string]map[string]string{
		"too many":                 many,
		"a value that is too long": {"a": strings.Repeat("x", 129)},
		"a name that is too long":  {strings.Repeat("x", 33): "a"},
		"a name without text":      {"": "a"},
		"a name with a line break": {"a\nb": "a"},
		"too much altogether":      {"a": strings.Repeat("ß", 128), "b": strings.Repeat("ß", 128)},
	} {
		text, err := json.Marshal(attributes)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{
			`group.member.add {"group_id":"up","skill_id":"new","role":"r","cap_id":"climate","attributes":%s}`,
			`group.member.update {"group_id":"up","skill_id":"lamp","cap_id":"climate","attributes":%s}`,
			`group.dispatch {"group_id":"up","capability_id":"on","cap_id":"climate","target":{"attributes":%s}}`,
		} {
			verb, params, _ := strings.Cut(command, " ")
			e := w.refused(protocol.InvalidParameter, alice, verb, fmt.Sprintf(params, text))
			if where, _ := e.Details["param_name"].(string); !strings.Contains(where, "attributes") {
				t.Errorf("%s of %s: the error is about %q", name, verb, where)
			}
		}
	}
}
