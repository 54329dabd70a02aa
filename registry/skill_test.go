package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A listed result is what skill.discover shows.
type listed struct {
	Skills []struct {
		SkillID      protocol.SkillID   `json:"skill_id"`
		Status       Status             `json:"status"`
		AgentID      protocol.AgentID   `json:"agent_id"`
		AgentIDs     []protocol.AgentID `json:"agent_ids"`
		Capabilities json.RawMessage    `json:"capabilities"`
		Name         string             `json:"name"`
	} `json:"skills"`
	Total      int    `json:"total"`
	NextCursor string `json:"next_cursor"`
}

func (l *listed) ids() (ids []string) {
	for _, s := range l.Skills {
		ids = append(ids, string(s.SkillID))
	}
	return ids
}

func TestBadSkillsAreRefusedWithThePlaceAndTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := strings.Repeat(`"c",`, 101)
	for _, test := range []struct{ skill, at string }{
		{`{"name":"S","capabilities":["c"]}`, "skill.skill_id"},
		{`{"skill_id":"` + strings.Repeat("s", 65) + `","name":"S","capabilities":["c"]}`, "skill.skill_id"},
		{`{"skill_id":"s/t","name":"S","capabilities":["c"]}`, "skill.skill_id"},
		{`{"skill_id":"s","capabilities":["c"]}`, "skill.name"},
		{`{"skill_id":"s","name":"","capabilities":["c"]}`, "skill.name"},
		{`{"skill_id":"s","name":"` + strings.Repeat("ü", 129) + `","capabilities":["c"]}`, "skill.name"},
		{`{"skill_id":"s","name":"S","description":"` + strings.Repeat("d", 513) + `","capabilities":["c"]}`, "skill.description"},
		{`{"skill_id":"s","name":"S","version":"1.0","capabilities":["c"]}`, "skill.version"},
		{`{"skill_id":"s","name":"S","type":"other","capabilities":["c"]}`, "skill.type"},
		{`{"skill_id":"s","name":"S"}`, "skill.capabilities"},
		{`{"skill_id":"s","name":"S","capabilities":[]}`, "skill.capabilities"},
		{`{"skill_id":"s","name":"S","capabilities":[` + many[:len(many)-1] + `]}`, "skill.capabilities"},
		{`{"skill_id":"s","name":"S","capabilities":["a","b","a"]}`, "skill.capabilities[2].capability_id"},
		{`{"skill_id":"s","name":"S","capabilities":["a",{"name":"nameless"}]}`, "skill.capabilities[1].capability_id"},
		{`{"skill_id":"s","name":"S","capabilities":[{"capability_id":"a","retries":3}]}`, "skill.capabilities[0].retries"},
		{`{"skill_id":"s","name":"S","capabilities":[{"capability_id":"a","effect":"write"}]}`, "skill.capabilities[0].effect"},
		{`{"skill_id":"s","name":"S","capabilities":[{"capability_id":"a","params_schema":"text"}]}`, "skill.capabilities[0].params_schema"},
		{`{"skill_id":"s","name":"S","capabilities":[{"capability_id":"a","params_schema":{"$ref":"https://example.org/x"}}]}`, "skill.capabilities[0].params_schema"},
		{`{"skill_id":"s","name":"S","capabilities":["x",{"capability_id":"a","result_schema":{"pattern":"("}}]}`, "skill.capabilities[1].result_schema"},
		{`{"skill_id":"s","name":"S","endpoints":["not a url"],"capabilities":["c"]}`, "skill.endpoints[0]"},
		{`{"skill_id":"s","name":"S","endpoints":["http://u:p@a.example"],"capabilities":["c"]}`, "skill.endpoints[0]"},
		{`{"skill_id":"s","name":"S","endpoints":[` + strings.Repeat(`"http://a.example",`, 10) + `"http://a.example"],"capabilities":["c"]}`, "skill.endpoints"},
		{`"s"`, "skill"},
	} {
		err := w.fails(alice, "skill.register", `{"skill":`+test.skill+`}`, protocol.InvalidParameter)
		if err.Details["param_name"] != test.at || err.Details["reason"] == "" {
			t.Errorf("%.120s:\n got %v\nwant it at %s", test.skill, err.Details, test.at)
		}
	}
	if w.skills.Len() != 0 {
		t.Error("a bad skill was stored")
	}
}

func TestASkillIsShownAsItWasRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, nil)
	const capabilities = `["on",{"capability_id":"dim","name":"Dim","params_schema":{"type":"object"},"idempotent":true,"risk":"low"},` +
		`{"capability_id":"look","effect":"read"}]`
	var made RegisterSkillResult
	w.do(alice, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"light","name":"灯","version":"2.1.0","type":"system","capabilities":`+capabilities+`}}`, &made)
	if made.Revision == 0 || made.AgentID != "lamp" {
		t.Errorf("registered as %+v", made)
	}
	var got listed
	w.do(alice, "skill.discover", `{"capability":"dim"}`, &got)
	if got.Total != 1 || string(got.Skills[0].Capabilities) != capabilities || got.Skills[0].AgentID != "lamp" || got.Skills[0].Name != "灯" {
		t.Errorf("shown as %+v, %s", got, got.Skills[0].Capabilities)
	}
}

func TestTheSenderProvidesASkillThatNamesNoAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, nil)
	var made RegisterSkillResult
	w.must(w.ask(question{who: alice, sender: "lamp", command: "skill.register", params: `{"skill":{"skill_id":"light","name":"L","capabilities":["on"]}}`}), &made)
	if made.AgentID != "lamp" {
		t.Errorf("provided by %q", made.AgentID)
	}
	r := w.ask(question{who: alice, command: "skill.register", params: `{"skill":{"skill_id":"dark","name":"D","capabilities":["off"]}}`})
	w.must(r, nil)
	if len(r.Metadata.Warnings) != 1 {
		t.Errorf("warnings about a skill nobody provides: %q", r.Metadata.Warnings)
	}
	w.fails(alice, "skill.register", `{"agent_id":"nobody","skill":{"skill_id":"x","name":"X","capabilities":["c"]}}`, protocol.NotFound)
	w.fails(bob, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"x","name":"X","capabilities":["c"]}}`, protocol.PermissionDenied)
}

func TestSeveralAgentsProvideOneSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(alice, "agent.register", `{"agent_id":"a1","type":"end_agent"}`, nil)
	w.do(alice, "agent.register", `{"agent_id":"a2","type":"end_agent"}`, nil)
	w.do(bob, "agent.register", `{"agent_id":"b1","type":"end_agent"}`, nil)
	register := func(agent, name, version string) string {
		return fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":"light","name":%q,"version":%q,"capabilities":["on"]}}`, agent, name, version)
	}
	agents := func() []protocol.AgentID {
		var got listed
		w.do(alice, "skill.discover", `{}`, &got)
		if len(got.Skills) == 0 {
			return nil
		}
		return got.Skills[0].AgentIDs
	}
	w.do(alice, "skill.register", register("a1", "Light", "1.0.0"), nil)
	w.do(alice, "skill.register", register("a2", "Light", "1.0.0"), nil)
	w.fails(bob, "skill.register", register("b1", "Light", "6.6.6"), protocol.AlreadyExists)       // not what the owner says
	w.fails(bob, "skill.register", register("b1", "Bob's light", "1.0.0"), protocol.AlreadyExists) // not let in
	w.do(alice, "skill.provider.add", `{"skill_id":"light","agent_id":"b1"}`, nil)
	w.do(bob, "skill.register", register("b1", "Bob's light", "1.0.0"), nil)
	if got := agents(); !slices.Equal(got, []protocol.AgentID{"a1", "a2", "b1"}) {
		t.Fatalf("provided by %v", got)
	}
	if r, _, _ := w.skills.Get("default/light"); r.Name != "Light" || r.Owner != alice.Party() {
		t.Errorf("described by another: %+v", r)
	}

	// Bob takes back his own, and nothing else.
	w.fails(bob, "skill.unregister", `{"skill_id":"light","agent_id":"a1"}`, protocol.PermissionDenied)
	w.fails(bob, "skill.unregister", `{"skill_id":"light","agent_id":"nobody"}`, protocol.NotFound)
	var out UnregisterSkillResult
	w.do(bob, "skill.unregister", `{"skill_id":"light"}`, &out)
	if got := agents(); out.Removed || !slices.Equal(got, []protocol.AgentID{"a1", "a2"}) {
		t.Errorf("after bob: %v, removed %v", got, out.Removed)
	}
	w.fails(bob, "skill.unregister", `{"skill_id":"light"}`, protocol.PermissionDenied)
	// An agent takes back itself.
	w.must(w.ask(question{who: alice, sender: "a1", command: "skill.unregister", params: `{"skill_id":"light"}`}), nil)
	if got := agents(); !slices.Equal(got, []protocol.AgentID{"a2"}) {
		t.Errorf("after a1: %v", got)
	}
	// The owner removes the skill.
	w.do(alice, "skill.unregister", `{"skill_id":"light"}`, &out)
	if !out.Removed || agents() != nil {
		t.Error("the skill is still there")
	}
	w.fails(alice, "skill.unregister", `{"skill_id":"light"}`, protocol.NotFound)
}

func TestAgentsRegisterOneSkillAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const agents = 8
	for i := range agents {
		w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":"a%d","type":"end_agent"}`, i), nil)
	}
	w.skills.Yield()
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			w.do(alice, "skill.register", fmt.Sprintf(`{"agent_id":"a%d","skill":{"skill_id":"light","name":"L","capabilities":["on"]}}`, i), nil)
		})
	}
	all.Wait()
	if r, _, _ := w.skills.Get("default/light"); len(r.Providers) != agents {
		t.Errorf("provided by %v", r.Providers)
	}
}

func TestASkillHasBoundedlyManyAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range maxProviders + 1 {
		w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":"a%d","type":"end_agent"}`, i), nil)
		r := w.ask(question{who: alice, command: "skill.register", params: fmt.Sprintf(`{"agent_id":"a%d","skill":{"skill_id":"light","name":"L","capabilities":["on"]}}`, i)})
		if i < maxProviders {
			w.must(r, nil)
		} else {
			w.failed(r, protocol.LimitReached)
		}
	}
}

func TestSkillsAreDiscovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connect("here", alice, echo).register()
	w.must(w.ask(question{who: alice, command: "agent.register", client: "nobody", params: `{"agent_id":"away","type":"end_agent"}`}), nil)
	w.do(alice, "agent.register", `{"agent_id":"router","type":"route_agent","cert_sn":"1111111111111111","endpoints":["https://a.example/"]}`, nil)
	w.must(w.ask(question{who: alice, command: "agent.register", client: "nobody", params: `{"agent_id":"lost","type":"route_agent","cert_sn":"2222222222222222"}`}), nil)
	for agent, skill := range map[string]string{
		"here":   `{"skill_id":"kitchen","name":"Kitchen Light","description":"Über dem Herd","capabilities":["on","off"]}`,
		"away":   `{"skill_id":"hall","name":"Hall","description":"light in the hall","capabilities":["on",{"capability_id":"dim","description":"softly, softly"}]}`,
		"router": `{"skill_id":"dispatch","name":"Dispatch","capabilities":["route","on"]}`,
		"lost":   `{"skill_id":"dispatch2","name":"Dispatch","capabilities":["route"]}`,
	} {
		w.do(alice, "skill.register", fmt.Sprintf(`{"agent_id":%q,"skill":%s}`, agent, skill), nil)
	}
	w.do(alice, "skill.register", `{"agent_id":"router","skill":{"skill_id":"another","name":"Of no certificate","capabilities":["route"]}}`, nil)
	w.do(alice, "skill.register", `{"agent_id":"here","skill":{"skill_id":"fake","name":"Fake","capabilities":["route"]}}`, nil)
	w.do(alice, "skill.register", `{"skill":{"skill_id":"web","name":"Web","endpoints":["https://a.example/skill"],"capabilities":["fetch"]}}`, nil)
	for params, want := range map[string]string{
		`{}`:                                  "[another dispatch dispatch2 fake hall kitchen web]",
		`{"capability":"on"}`:                 "[dispatch hall kitchen]",
		`{"capability":"ON"}`:                 "[]",
		`{"capability":"route"}`:              "[dispatch]",
		`{"text":"LIGHT"}`:                    "[hall kitchen]",
		`{"text":"light hall"}`:               "[hall]",
		`{"text":"Softly"}`:                   "[hall]",
		`{"text":"über"}`:                     "[kitchen]",
		`{"text":"ÜBER"}`:                     "[kitchen]",
		`{"text":"zzz"}`:                      "[]",
		`{"text":"light","capability":"off"}`: "[kitchen]",
	} {
		var got listed
		w.do(alice, "skill.discover", params, &got)
		if fmt.Sprint(got.ids()) != want || got.Total != len(got.Skills) {
			t.Errorf("%s: %v of %d, want %s", params, got.ids(), got.Total, want)
		}
	}
	var got listed
	w.do(alice, "skill.discover", `{}`, &got)
	status := map[string]Status{}
	for _, s := range got.Skills {
		status[string(s.SkillID)] = s.Status
	}
	if status["kitchen"] != Online || status["hall"] != Offline || status["web"] != Online || status["dispatch2"] != Offline {
		t.Errorf("status %v", status)
	}
}

func TestDiscoveryPagesThroughEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 500 {
		w.do(alice, "skill.register", fmt.Sprintf(`{"skill":{"skill_id":"skill-%03d","name":"S","capabilities":["c%d"]}}`, i, i%2), nil)
	}
	for _, filter := range []string{`"capability":"c1"`, `"capability":"c1","text":"skill"`} {
		var seen []string
		cursor := ""
		for {
			var got listed
			w.do(alice, "skill.discover", `{"limit":40,`+filter+cursor+`}`, &got)
			if got.Total != 250 {
				t.Fatalf("total %d", got.Total)
			}
			seen = append(seen, got.ids()...)
			if got.NextCursor == "" {
				break
			}
			cursor = fmt.Sprintf(`,"cursor":%q`, got.NextCursor)
		}
		if len(seen) != 250 || !slices.IsSorted(seen) {
			t.Errorf("%s: saw %d", filter, len(seen))
		}
	}
}

func TestResourcesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var first, second ResourceResult
	w.do(alice, "resource.register", `{"resource":{"resource_id":"boiler","name":"Boiler","type":"device","properties":{"floor":-1}}}`, &first)
	w.do(alice, "resource.register", `{"resource":{"resource_id":"boiler","name":"Boiler","type":"device","status":"broken"}}`, &second)
	if second.Revision <= first.Revision {
		t.Errorf("revisions %d, %d", first.Revision, second.Revision)
	}
	w.do(alice, "resource.register", `{"resource":{"resource_id":"attic","name":"Attic","type":"room"}}`, nil)
	w.fails(bob, "resource.register", `{"resource":{"resource_id":"boiler","name":"Mine","type":"device"}}`, protocol.AlreadyExists)
	w.fails(bob, "resource.remove", `{"resource_id":"boiler"}`, protocol.PermissionDenied)
	w.fails(alice, "resource.get", `{"resource_id":"cellar"}`, protocol.NotFound)
	w.fails(alice, "resource.register", `{"resource":{"resource_id":"x","name":"X","type":"device","properties":{"blob":"`+strings.Repeat("x", maxProperties)+`"}}}`, protocol.InvalidParameter)
	w.fails(alice, "resource.register", `{"resource":{"resource_id":"x","name":"X","type":"device","properties":[1]}}`, protocol.InvalidParameter)

	var got GetResourceResult
	w.do(alice, "resource.get", `{"resource_id":"boiler"}`, &got)
	if got.Resource.Status != "broken" || got.Resource.Revision != second.Revision || got.Resource.Owner != "alice" {
		t.Errorf("got %+v", got.Resource)
	}
	var list ListResourcesResult
	w.do(alice, "resource.list", `{"type":"device"}`, &list)
	if list.Total != 1 || list.Resources[0].ResourceID != "boiler" || list.Resources[0].Status != "broken" {
		t.Errorf("listed %+v", list)
	}
	w.do(alice, "resource.remove", `{"resource_id":"boiler"}`, nil)
	w.do(alice, "resource.list", `{}`, &list)
	if list.Total != 1 || list.Resources[0].ResourceID != "attic" {
		t.Errorf("left %+v", list)
	}
}
