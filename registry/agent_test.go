package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

func TestDeclarationsAreSound(t *testing.T) {
	t.Parallel()
	set, err := commands.NewSet(new(Service).Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	if set.Len() != 21 {
		t.Errorf("%d commands", set.Len())
	}
}

func TestRegisteringAnAgentTellsWhatItNeedsToKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got RegisterAgentResult
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent","endpoints":["http://lamp.example:9010"]}`, &got)
	want := RegisterAgentResult{
		AgentID: "lamp", Status: Online, Space: "default",
		RequestTopic: "aibridge/agent/lamp/request", ResponseTopic: "aibridge/agent/lamp/response", HeartbeatInterval: 30,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadAgentsAreRefusedWithThePlaceAndTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct{ params, at string }{
		{`{"type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"","type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"a/b","type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"+","type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"a#","type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"$sys","type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"a\u0000b","type":"end_agent"}`, "agent_id"},
		{`{"agent_id":"a"}`, "type"},
		{`{"agent_id":"a","type":"lamp"}`, "type"},
		{`{"agent_id":"a","type":"end_agent","endpoints":[]}`, "endpoints"},
		{`{"agent_id":"a","type":"end_agent","endpoints":["lamp.example"]}`, "endpoints[0]"},
		{`{"agent_id":"a","type":"end_agent","endpoints":["http://a.example","http://u:p@a.example"]}`, "endpoints[1]"},
		{`{"agent_id":"a","type":"end_agent","skills":[{"skill_id":"s","name":"S","capabilities":["c"]},{"skill_id":"s","name":"S","capabilities":[{"capability_id":"c","params_schema":{"type":"?"}}]}]}`, "skills[1].capabilities[0].params_schema"},
		{`{"agent_id":"a","type":"end_agent","color":"red"}`, "color"},
	} {
		err := w.fails(alice, "agent.register", test.params, protocol.InvalidParameter)
		if err.Details["param_name"] != test.at || err.Details["reason"] == "" {
			t.Errorf("%s:\n got %v\nwant it at %s", test.params, err.Details, test.at)
		}
	}
	if w.agents.Len() != 0 {
		t.Error("a bad agent was stored")
	}
}

func TestASecondAgentWithTheSameIDNeedsTheSamePrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent","name":"first"}`, nil)
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"mcp_agent","name":"second"}`, nil)
	var got GetAgentResult
	w.do(alice, "agent.get", `{"agent_id":"lamp"}`, &got)
	if got.Name != "second" || got.Type != MCPAgent || got.Owner != "alice" {
		t.Errorf("after the second registration: %+v", got)
	}
	for _, who := range []*protocol.Principal{bob, root} {
		if err := w.fails(who, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, protocol.AlreadyExists); err.Details["agent_id"] != "lamp" {
			t.Errorf("%s: %v", who.ID, err.Details)
		}
	}
}

func TestRegisteringAgainWithoutChangesWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent","skills":[{"skill_id":"light","name":"Light","capabilities":["on"]}]}`, nil)
	}
	if w.agents.Writes() != 1 || w.skills.Writes() != 1 {
		t.Errorf("%d writes of agents, %d of skills", w.agents.Writes(), w.skills.Writes())
	}
}

func TestTheClientThatRegisteredAnAgentBeforeIsCutOff(t *testing.T) {
	t.Parallel()
	var cut []any
	w := newWorld(t, func(o *Options) { o.Disconnect = func(conn any, _ string) { cut = append(cut, conn) } })
	first := w.connect("lamp", alice, echo)
	first.register()
	first.register() // again by the same client: nothing happens
	if len(cut) != 0 {
		t.Fatalf("cut off: %v", cut)
	}
	second := &device{w: w, id: "lamp", who: alice, client: "another client"}
	w.Connected(second, second.client, alice)
	second.register()
	if !slices.Equal(cut, []any{first}) {
		t.Errorf("cut off: %v", cut)
	}
}

func TestWhatIsInAnotherSpaceDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(carol, "agent.register", `{"agent_id":"lamp","type":"end_agent","skills":[{"skill_id":"light","name":"Light","capabilities":["on"]}]}`, nil)
	w.do(carol, "resource.register", `{"resource":{"resource_id":"room","name":"Room","type":"room"}}`, nil)
	for command, params := range map[string]string{
		"agent.get":        `{"agent_id":"lamp"}`,
		"agent.heartbeat":  `{"agent_id":"lamp"}`,
		"agent.unregister": `{"agent_id":"lamp"}`,
		"skill.unregister": `{"skill_id":"light"}`,
		"skill.invoke":     `{"skill_id":"light","capability_id":"on"}`,
		"resource.get":     `{"resource_id":"room"}`,
		"resource.remove":  `{"resource_id":"room"}`,
	} {
		here := w.fails(alice, command, params, protocol.NotFound)
		there := w.fails(alice, command, params[:len(params)-1]+`,"space_id":"lab"}`, protocol.NotFound)
		nowhere := w.fails(alice, command, params[:len(params)-1]+`,"space_id":"no such space"}`, protocol.NotFound)
		if there.Message != nowhere.Message || here.Message != there.Message {
			t.Errorf("%s tells spaces apart: %q, %q, %q", command, here.Message, there.Message, nowhere.Message)
		}
	}
	for command, list := range map[string]string{"agent.list": "agents", "skill.discover": "skills", "resource.list": "resources"} {
		w.fails(alice, command, `{"space_id":"lab"}`, protocol.NotFound)
		var got map[string]any
		w.do(alice, command, `{}`, &got)
		if got["total"] != 0.0 || len(got[list].([]any)) != 0 {
			t.Errorf("%s shows %v", command, got)
		}
		w.do(root, command, `{"space_id":"lab"}`, &got)
		if got["total"] != 1.0 {
			t.Errorf("%s shows an administrator %v", command, got)
		}
	}
	// The same ids are free in the caller's own space.
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"mcp_agent"}`, nil)
	var mine, theirs GetAgentResult
	w.do(alice, "agent.get", `{"agent_id":"lamp"}`, &mine)
	w.do(carol, "agent.get", `{"agent_id":"lamp"}`, &theirs)
	if mine.Owner != "alice" || theirs.Owner != "carol" {
		t.Errorf("mine %+v, theirs %+v", mine, theirs)
	}
}

func TestUnregisteringAnAgentTakesWhatOnlyItProvides(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		const skill = `{"skill_id":"%s","name":"S","capabilities":["c"]%s}`
		w.device("one", fmt.Sprintf(skill, "shared", ""), echo)
		w.device("two", fmt.Sprintf(skill, "shared", ""), echo)
		w.do(alice, "skill.register", `{"agent_id":"one","skill":`+fmt.Sprintf(skill, "alone", "")+`}`, nil)
		w.do(alice, "skill.register", `{"agent_id":"one","skill":`+fmt.Sprintf(skill, "web", `,"endpoints":["http://a.example"]`)+`}`, nil)
		synctest.Wait()
		if c := w.mqtt.card(t, "one"); c == nil || c.Status != Online || c.SkillCount != 3 {
			t.Fatalf("card %+v", c)
		}

		w.fails(bob, "agent.unregister", `{"agent_id":"one"}`, protocol.PermissionDenied)
		var got UnregisterAgentResult
		w.do(alice, "agent.unregister", `{"agent_id":"one"}`, &got)
		if !slices.Equal(got.Skills, []protocol.SkillID{"alone"}) {
			t.Errorf("skills %v went with it", got.Skills)
		}
		synctest.Wait()
		if c := w.mqtt.card(t, "one"); c != nil {
			t.Errorf("the card is still there: %+v", c)
		}
		var found listed
		w.do(alice, "skill.discover", `{}`, &found)
		if found.Total != 2 || found.Skills[0].SkillID != "shared" || !slices.Equal(found.Skills[0].AgentIDs, []protocol.AgentID{"two"}) {
			t.Errorf("left: %+v", found.Skills)
		}
		w.fails(alice, "agent.get", `{"agent_id":"one"}`, protocol.NotFound)
		w.fails(alice, "agent.unregister", `{"agent_id":"one"}`, protocol.NotFound)
	})
}

func TestAnAgentThatCannotBeRemovedKeepsItsCard(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.connect("lamp", alice, echo).register()
		w.agents.Break(protocol.Errorf(protocol.StoreUnavailable, "away"))
		w.fails(alice, "agent.unregister", `{"agent_id":"lamp"}`, protocol.StoreUnavailable)
		synctest.Wait()
		if w.mqtt.card(t, "lamp") == nil {
			t.Error("the card is gone, the agent is not")
		}
	})
}

func TestAgentsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 25 {
		w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":"agent-%02d","type":"end_agent"}`, i), nil)
	}
	var ids []protocol.AgentID
	cursor := ""
	for page := 0; ; page++ {
		var got ListAgentsResult
		w.do(alice, "agent.list", `{"limit":10`+cursor+`}`, &got)
		for _, a := range got.Agents {
			ids = append(ids, a.AgentID)
		}
		if got.Total != 25+min(page, 1) {
			t.Errorf("page %d: total %d", page, got.Total)
		}
		if got.NextCursor == "" {
			break
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, got.NextCursor)
		if page == 0 { // what comes in front of the cursor disturbs nothing
			w.do(alice, "agent.register", `{"agent_id":"agent-005","type":"end_agent"}`, nil)
		}
	}
	if len(ids) != 25 || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 25 {
		t.Errorf("listed %v", ids)
	}
	w.fails(alice, "agent.list", `{"limit":0}`, protocol.InvalidParameter)
	w.fails(alice, "agent.list", `{"limit":1001}`, protocol.InvalidParameter)
}

func TestAgentsAreFoundByTextAndSorted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, name := range map[string]string{"a": "Lamp in the hall", "b": "A shelf", "lamp-2": "Attic"} {
		w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":%q,"name":%q,"type":"end_agent"}`, id, name), nil)
	}
	list := func(params string) (ids string, got ListAgentsResult) {
		w.do(alice, "agent.list", params, &got)
		for _, a := range got.Agents {
			ids += string(a.AgentID) + " "
		}
		return strings.TrimSpace(ids), got
	}
	for params, want := range map[string]string{
		`{"find":"LAMP"}`: "a lamp-2", `{"find":"heater"}`: "", `{"sort":"-id"}`: "lamp-2 b a", `{"sort":"name"}`: "b lamp-2 a",
		`{"sort":"-status","status":"offline"}`: "lamp-2 b a",
	} {
		if got, page := list(params); got != want || page.Total != len(strings.Fields(want)) {
			t.Errorf("%s lists %q, %d in all, want %q", params, got, page.Total, want)
		}
	}
	_, first := list(`{"sort":"-name","limit":2}`)
	if got, _ := list(fmt.Sprintf(`{"sort":"-name","limit":2,"cursor":%q}`, first.NextCursor)); got != "b" {
		t.Errorf("the second page by name is %q", got)
	}
	w.fails(alice, "agent.list", fmt.Sprintf(`{"sort":"since","cursor":%q}`, "a"), protocol.InvalidParameter)
	w.fails(alice, "agent.list", `{"sort":"colour"}`, protocol.InvalidParameter)
}

func TestRouteAgentsAreListedWhileTheyAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(alice, "agent.register", `{"agent_id":"here","type":"route_agent","cert_sn":"1111111111111111","endpoints":["https://a.example/"]}`, nil)
	w.must(w.ask(question{who: alice, command: "agent.register", client: "gone", params: `{"agent_id":"away","type":"route_agent","cert_sn":"1111111111111111"}`}), nil)
	old := &Agent{ID: "unauthorised", Space: protocol.DefaultSpace, Type: RouteAgent, Owner: alice.Party(), Endpoints: []string{"https://a.example/"}} // from before certificates
	if _, err := w.agents.Create(t.Context(), "default/unauthorised", old); err != nil {
		t.Fatal(err)
	}
	w.do(alice, "agent.heartbeat", `{"agent_id":"unauthorised"}`, nil)
	w.do(alice, "agent.register", `{"agent_id":"other","type":"end_agent","endpoints":["https://a.example/"]}`, nil)
	for params, want := range map[string]int{
		`{}`:                     4,
		`{"type":"route_agent"}`: 1,
		`{"type":"route_agent","status":"offline"}`: 2,
		`{"status":"online"}`:                       3,
		`{"status":"offline","type":"end_agent"}`:   0,
	} {
		var got ListAgentsResult
		w.do(alice, "agent.list", params, &got)
		if got.Total != want || len(got.Agents) != want {
			t.Errorf("%s: %+v, want %d", params, got.Agents, want)
		}
	}
}

func TestAnAgentNobodyCanReachIsWarnedAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.ask(question{who: alice, command: "agent.register", params: `{"agent_id":"lamp","type":"end_agent"}`})
	w.must(r, nil)
	if len(r.Metadata.Warnings) != 1 {
		t.Errorf("warnings %q", r.Metadata.Warnings)
	}
}

func TestANamesakeOfAnotherKindOwnsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lamp := &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: protocol.DefaultSpace}
	namesake := &protocol.Principal{Kind: protocol.KindOperator, ID: "lamp", Space: protocol.DefaultSpace}
	w.do(lamp, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, nil)
	w.do(lamp, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"light","name":"L","capabilities":["on"]}}`, nil)
	w.do(lamp, "resource.register", `{"resource":{"resource_id":"bulb","name":"B","type":"device"}}`, nil)
	w.fails(namesake, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, protocol.AlreadyExists)
	w.fails(namesake, "agent.heartbeat", `{"agent_id":"lamp"}`, protocol.PermissionDenied)
	w.fails(namesake, "agent.unregister", `{"agent_id":"lamp"}`, protocol.PermissionDenied)
	w.fails(namesake, "skill.unregister", `{"skill_id":"light"}`, protocol.PermissionDenied)
	w.fails(namesake, "resource.remove", `{"resource_id":"bulb"}`, protocol.PermissionDenied)
	if yes, _ := w.SpeaksFor(namesake, protocol.DefaultSpace, "light"); yes {
		t.Error("it speaks for the skill")
	}
	agent, _, _ := w.agents.Get("default/lamp")
	to, party := agent.Recipients(), namesake.Party()
	if to.Has(&party) {
		t.Error("it gets what the agent is asked")
	}
}

// Records of earlier versions have the owner's id alone.
func TestAnAgentOfAnEarlierVersionIsItsOwnersStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var old Agent
	if err := json.Unmarshal([]byte(`{"agent_id":"lamp","space_id":"default","type":"end_agent","owner":"alice","registered_at":1,"updated_at":1}`), &old); err != nil {
		t.Fatal(err)
	}
	if _, err := w.agents.Create(t.Context(), "default/lamp", &old); err != nil {
		t.Fatal(err)
	}
	w.fails(bob, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, protocol.AlreadyExists)
	w.do(alice, "agent.heartbeat", `{"agent_id":"lamp"}`, nil)
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, nil)
	if a, _, _ := w.agents.Get("default/lamp"); a.Owner != alice.Party() || a.RegisteredAt != 1 {
		t.Errorf("registered anew as %+v", a)
	}
}
