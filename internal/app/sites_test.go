package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A plant is a bridge that is a site of another one, with a lamp.
type plant struct {
	t            *testing.T
	centre, edge *house
	line         *roughLine
	web          *roughLine // of files
	key          string     // the site's at the centre
	person       string     // key of an operator at the centre

	mu   sync.Mutex
	runs map[string]int // of the lamp, by what it was asked for
	hold chan struct{}  // if there is one, the lamp waits for its end
}

// newPlant makes a plant; what the centre has of it may be changed before.
func newPlant(t *testing.T, change ...func(*site.Have)) *plant {
	return newPlantWith(t, func(*site.Join) {}, change...)
}

// newPlantWith makes a plant whose own settings are changed before, too.
func newPlantWith(t *testing.T, join func(*site.Join), change ...func(*site.Have)) *plant {
	return newPlantOf(t, func(c *app.Config) { join(&c.Sites.Join) }, change...)
}

// newPlantOf makes a plant whose bridge has other settings, too.
func newPlantOf(t *testing.T, edge func(*app.Config), change ...func(*site.Have)) *plant {
	return newPlantAt(t, func(*app.Config) {}, edge, change...)
}

// newPlantAt makes a plant whose centre has other settings, too.
func newPlantAt(t *testing.T, centre, edge func(*app.Config), change ...func(*site.Have)) *plant {
	p := &plant{t: t, runs: map[string]int{}}
	have := site.Have{Name: "plant", Principal: "plant-bridge"}
	for _, f := range change {
		f(&have)
	}
	p.centre = newHouse(t, func(c *app.Config) {
		c.Sites.Have = []site.Have{have}
		centre(c)
	})
	p.key = p.centre.key(protocol.KindAgent, "plant-bridge", "site")
	p.person = p.centre.key(protocol.KindOperator, "ann", "operator")
	p.line, p.web = newRoughLine(t, p.centre.MQTT), newRoughLine(t, p.centre.HTTP)
	keys := t.TempDir()
	there, here := filepath.Join(keys, "there"), filepath.Join(keys, "here")
	bridgetest.Write(t, there, p.key+"\n")
	p.edge = newHouse(t, func(c *app.Config) {
		c.Sites.Join = site.Join{Name: "plant", URL: "mqtt://" + p.line.address, Key: there, Principal: here, Agents: []string{"lamp*"}, FilesURL: "http://" + p.web.address + "/vfs"}
		edge(c)
	})
	bridgetest.Write(t, here, p.edge.key(protocol.KindOperator, "centre", "operator"))
	return p
}

// lamp connects the lamp to the edge.
func (p *plant) lamp() *client.Client {
	p.t.Helper()
	return p.lampOf("lamp", "light")
}

// lampOf connects a lamp with a skill to the edge.
func (p *plant) lampOf(id protocol.AgentID, skill protocol.SkillID) *client.Client {
	p.t.Helper()
	return p.riskyLamp(id, skill, "")
}

// riskyLamp connects a lamp whose capability declares a risk.
func (p *plant) riskyLamp(id protocol.AgentID, skill protocol.SkillID, risk string) *client.Client {
	p.t.Helper()
	c := p.edge.Dial(p.t, client.WithAPIKey(p.edge.key(protocol.KindAgent, string(id), "end_agent")), client.WithAgent(client.Agent{ID: id, Name: "The lamp"}))
	_, err := c.ServeSkill(p.t.Context(), client.Skill{
		ID: skill, Name: "Light",
		StateSchema: json.RawMessage(`{"type":"object","properties":{"level":{"type":"integer","maximum":100},"hours":{"type":"integer","readOnly":true}}}`),
		Desired:     func(_ context.Context, delta json.RawMessage) (any, error) { return delta, nil },
		Capabilities: []client.Capability{{
			ID: "set", Risk: risk, ParamsSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}`), Handler: p.set,
		}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *plant) set(ctx context.Context, in *client.Invocation) (any, error) {
	var params struct{ N string }
	if err := json.Unmarshal(in.Params, &params); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.runs[params.N]++
	p.runs[string(in.SkillID)+" "+params.N]++
	hold := p.hold
	p.mu.Unlock()
	if params.N == "broken" {
		return nil, protocol.Errorf(protocol.InvalidState, "the bulb is broken")
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	left := time.Until(in.Deadline)
	return map[string]any{"n": params.N, "in_time": left > 0 && left <= time.Minute}, nil
}

func (p *plant) ran(n string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[n]
}

// statusAtCentre is the status of an agent at the centre, "" if it has none.
func (p *plant) statusAtCentre(id string) string {
	code, body := p.centre.run(p.person, "agent.get", fmt.Sprintf(`{"agent_id":%q}`, id))
	var got struct{ Status string }
	if code != "" || json.Unmarshal([]byte(body), &got) != nil {
		return ""
	}
	return got.Status
}

func (p *plant) becomes(id, status string) {
	p.t.Helper()
	eventually.Holds(p.t, id+" is "+status+" at the centre", func() bool { return p.statusAtCentre(id) == status })
}

// sets has the centre call the lamp, and returns the code of a failure.
func (p *plant) sets(n string, within time.Duration) (protocol.Code, string) {
	p.t.Helper()
	status, body := post(p.t, p.centre.HTTPURL("/api/v1/commands/skill.invoke"), fmt.Sprintf(`{"skill_id":"plant.light","capability_id":"set","params":{"n":%q}}`, n),
		"X-API-Key", p.person, "X-Timeout-Ms", fmt.Sprint(within.Milliseconds()), "X-Trace-Id", "trace-"+n)
	if status == 200 {
		return "", string(body)
	}
	var failure struct {
		Error struct{ Code protocol.Code }
	}
	if err := json.Unmarshal(body, &failure); err != nil {
		p.t.Fatalf("%s: %v", body, err)
	}
	return failure.Error.Code, string(body)
}

func TestAgentsOfASiteAreAtItsCentre(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	lamp := p.lamp()
	p.becomes("plant.lamp", "online")

	body := p.centre.must("agent.list", `{"selector":"site=plant"}`)
	if !strings.Contains(body, `"name":"The lamp"`) {
		t.Errorf("the agents with the tag of the site are %s", body)
	}
	if code, body := p.sets("one", time.Minute); code != "" || !strings.Contains(body, `"n":"one"`) || !strings.Contains(body, `"in_time":true`) {
		t.Errorf("the lamp answers %s %s", code, body)
	}
	if code, _ := p.sets("broken", time.Minute); code != protocol.InvalidState {
		t.Errorf("an error of the lamp is %s at the centre", code)
	}
	if code, body := p.centre.run(p.person, "skill.invoke", `{"skill_id":"plant.light","capability_id":"set","params":{}}`); code != protocol.InvalidParameter {
		t.Errorf("params that do not fit: %s %s", code, body)
	}

	var there, here struct {
		Entries []struct {
			Trace     string `json:"trace_id"`
			Principal string
			Resource  string
			Code      string
		}
	}
	audit := func(h *house, of any) {
		t.Helper()
		if err := json.Unmarshal([]byte(h.must("audit.query", `{"event":"skill.invoke"}`)), of); err != nil {
			t.Fatal(err)
		}
	}
	audit(p.centre, &there)
	audit(p.edge, &here)
	crossed := 0
	for _, e := range there.Entries {
		for _, f := range here.Entries {
			if e.Trace != "" && e.Trace == f.Trace && strings.Contains(e.Principal, "ann") && strings.Contains(f.Principal, "centre") {
				crossed++
			}
		}
	}
	if crossed != 2 {
		t.Errorf("%d calls are in both trails: %+v and %+v", crossed, there.Entries, here.Entries)
	}

	if body := p.edge.must("bridge.status", `{}`); !strings.Contains(body, `"centre":{"site":"plant"`) || !strings.Contains(body, `"state":"connected"`) {
		t.Errorf("the site shows itself as %s", body)
	}
	_ = lamp.Close()
	p.becomes("plant.lamp", "offline")
	p.lamp()
	p.becomes("plant.lamp", "online")
	p.line.rests(true)
	p.becomes("plant.lamp", "offline")
	p.line.rests(false)
	p.becomes("plant.lamp", "online")
	p.edge.must("agent.unregister", `{"agent_id":"lamp"}`)
	p.becomes("plant.lamp", "")
}

// TestWhatAnAgentOfASiteIsCalledFollows renames the lamp while it is online, and while
// it is not.
func TestWhatAnAgentOfASiteIsCalledFollows(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	lamp := p.lamp()
	p.becomes("plant.lamp", "online")
	described := func(name, floor string) {
		t.Helper()
		body := ""
		eventually.Holds(t, "the lamp is "+name+" at the centre", func() bool {
			body = p.centre.must("agent.list", `{"selector":"site=plant,floor=`+floor+`"}`)
			return strings.Contains(body, fmt.Sprintf(`"name":%q`, name))
		}, &body)
	}
	rename := func(params string) {
		t.Helper()
		if _, err := client.Call[struct{}](t.Context(), lamp, "agent.register", json.RawMessage(params)); err != nil {
			t.Fatal(err)
		}
	}
	rename(`{"agent_id":"lamp","type":"end_agent","name":"The lamp above","tags":{"floor":"2"}}`)
	described("The lamp above", "2")
	if code, body := p.sets("renamed", time.Minute); code != "" {
		t.Errorf("after its name has changed: %s %s", code, body)
	}
	p.line.rests(true)
	p.becomes("plant.lamp", "offline")
	rename(`{"agent_id":"lamp","type":"end_agent","name":"The lamp below","tags":{"floor":"1"}}`)
	p.line.rests(false)
	described("The lamp below", "1")
}

// TestASiteIsToldWhoCalls has the site refuse what one of the centre's people asks for,
// and note for whom it was asked. An operator of the site has the same id.
func TestASiteIsToldWhoCalls(t *testing.T) {
	t.Parallel()
	p := newPlant(t, func(h *site.Have) { h.Callers = true })
	p.edge.key(protocol.KindOperator, "ann", "operator")
	p.lamp()
	p.becomes("plant.lamp", "online")
	if code, body := p.sets("told", time.Minute); code != "" {
		t.Fatalf("%s %s", code, body)
	}
	p.edge.must("policy.put", `{"name":"not-ann","policy":"forbid (principal, action == Action::\"skill:invoke\", resource) when { context.sender_id == \"centre/operator/ann\" };"}`)
	if code, body := p.sets("refused", time.Minute); code != protocol.PermissionDenied {
		t.Errorf("by the site's policy: %s %s", code, body)
	}
	other := p.centre.key(protocol.KindOperator, "bob", "operator")
	if code, body := p.centre.run(other, "skill.invoke", `{"skill_id":"plant.light","capability_id":"set","params":{"n":"bob"}}`); code != "" {
		t.Errorf("of somebody else: %s %s", code, body)
	}
	if code, body := p.edge.run(p.edge.key(protocol.KindOperator, "ann", "operator"), "skill.invoke", `{"skill_id":"light","capability_id":"set","params":{"n":"here"}}`); code != "" {
		t.Errorf("of the site's own operator of that id: %s %s", code, body)
	}
	ann := p.centre.connect("ann", p.person)
	home(t, ann, "plant.light")
	p.edge.must("policy.remove", `{"name":"not-ann"}`)
	must(t, ann, "group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"set","params":{"n":"group"}}`)
	eventually.Holds(t, "the group's call has ended at the site", func() bool {
		return strings.Count(p.edge.must("audit.query", `{"event":"skill.invoke"}`), `"seq"`) == 5
	})
	var trail struct {
		Entries []struct {
			Principal string
			For       string `json:"acts_for"`
			Code      string
		}
	}
	if err := json.Unmarshal([]byte(p.edge.must("audit.query", `{"event":"skill.invoke"}`)), &trail); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range slices.Backward(trail.Entries) {
		got += fmt.Sprintf("%s for %s: %s; ", e.Principal, e.For, e.Code)
	}
	want := "centre for centre/operator/ann: ok; centre for centre/operator/ann: 2003; centre for centre/operator/bob: ok; ann for : ok; centre for centre/operator/ann: ok; "
	if got != want {
		t.Errorf("the trail of the site has\n%s, not\n%s", got, want)
	}
}

// TestASiteIsNotToldWhoCalls unless the centre says so.
func TestASiteIsNotToldWhoCalls(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.lamp()
	p.becomes("plant.lamp", "online")
	if code, body := p.sets("untold", time.Minute); code != "" {
		t.Fatalf("%s %s", code, body)
	}
	if body := p.edge.must("audit.query", `{"event":"skill.invoke"}`); strings.Contains(body, "ann") || strings.Contains(body, "acts_for") {
		t.Errorf("the trail of the site tells who called: %s", body)
	}
}

func TestStateOfASiteFollows(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	lamp := p.lamp()
	p.becomes("plant.lamp", "online")
	of := func(h *house, agent string) (reported string) {
		code, body := h.run(h.admin, "state.get", fmt.Sprintf(`{"agent_id":%q}`, agent))
		if code != "" {
			return string(code)
		}
		var got struct {
			Skills []struct {
				Reported struct{ State json.RawMessage }
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, s := range got.Skills {
			reported += string(s.Reported.State)
		}
		return reported
	}
	p.centre.must("state.desired.set", `{"agent_id":"plant.lamp","skill_id":"plant.light","state":{"level":40}}`)
	for _, at := range []struct {
		*house
		agent string
	}{{p.edge, "lamp"}, {p.centre, "plant.lamp"}} {
		var saw string
		eventually.Holds(t, "the wish is fulfilled", func() bool { saw = of(at.house, at.agent); return saw == `{"level":40}` }, &saw)
	}
	if code, _ := p.centre.run(p.person, "state.desired.set", `{"agent_id":"plant.lamp","skill_id":"plant.light","state":{"level":400}}`); code != protocol.InvalidParameter {
		t.Errorf("what cannot be is wished: %s", code)
	}
	// What is wished while the line is down is there when it is back; so is what the
	// lamp says meanwhile.
	p.line.rests(true)
	p.becomes("plant.lamp", "offline")
	p.centre.must("state.desired.set", `{"agent_id":"plant.lamp","skill_id":"plant.light","state":{"level":50}}`)
	if _, err := client.Call[struct{}](t.Context(), lamp, "state.report", map[string]any{"agent_id": "lamp", "skill_id": "light", "state": map[string]any{"hours": 7}}); err != nil {
		t.Fatal(err)
	}
	p.line.rests(false)
	var saw string
	eventually.Holds(t, "both have arrived", func() bool {
		saw = of(p.centre, "plant.lamp")
		return strings.Contains(saw, `"level":50`) && strings.Contains(saw, `"hours":7`)
	}, &saw)
}

func TestASiteIsConfined(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.lamp()
	p.becomes("plant.lamp", "online")

	// Another tenant neither sees nor reaches it.
	red := p.centre.key(protocol.KindOperator, "rob", "operator", `,"space_id":"red"`)
	if _, body := p.centre.run(red, "agent.list", `{}`); strings.Contains(body, "lamp") {
		t.Errorf("another tenant sees %s", body)
	}
	for _, params := range []string{
		`{"skill_id":"plant.light","capability_id":"set","params":{"n":"red"}}`,
		`{"skill_id":"plant.light","capability_id":"set","params":{"n":"red"},"space_id":"default"}`,
	} {
		if code, _ := p.centre.run(red, "skill.invoke", params); code != protocol.NotFound {
			t.Errorf("another tenant calls it: %s", code)
		}
	}
	if p.ran("red") != 0 {
		t.Error("the lamp did what another tenant wanted")
	}

	// Nobody else uses its name, and it uses no other.
	other := p.centre.key(protocol.KindAgent, "plant.fake", "end_agent")
	stranger := p.centre.key(protocol.KindAgent, "stranger", "site")
	agentOf := func(id string) string { return fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, id) }
	skillOf := func(id, skill string) string {
		return fmt.Sprintf(`{"agent_id":%q,"type":"end_agent","skills":[{"skill_id":%q,"name":"x","capabilities":["x"]}]}`, id, skill)
	}
	for name, c := range map[string]struct{ key, params string }{
		"an agent with its name":              {other, agentOf("plant.fake")},
		"an administrator's agent":            {p.centre.admin, agentOf("plant.fake")},
		"an agent with a skill of its name":   {p.centre.admin, skillOf("fake", "plant.fake")},
		"the site with another name":          {p.key, agentOf("hall.lamp")},
		"the site with a skill of other name": {p.key, skillOf("plant.other", "light")},
		"a site that nobody knows":            {stranger, agentOf("stranger.lamp")},
	} {
		if code, body := p.centre.run(c.key, "agent.register", c.params); code != protocol.PermissionDenied {
			t.Errorf("%s is registered: %s %s", name, code, body)
		}
	}
	for command, params := range map[string]string{
		"skill.invoke": `{"skill_id":"plant.light","capability_id":"set","params":{"n":"own"}}`, "skill.discover": `{}`, "key.list": `{}`,
		"state.desired.set": `{"agent_id":"plant.lamp","skill_id":"plant.light","state":{}}`,
	} {
		if code, _ := p.centre.run(p.key, command, params); code != protocol.PermissionDenied {
			t.Errorf("the site's key may %s: %s", command, code)
		}
	}

	// What the edge does not show, and what it does not let the centre do.
	p.edge.must("agent.register", `{"agent_id":"door","type":"end_agent","skills":[{"skill_id":"lock","name":"Lock","capabilities":["open"]}]}`)
	if code, _ := p.centre.run(p.person, "agent.get", `{"agent_id":"plant.door"}`); code != protocol.NotFound {
		t.Errorf("an agent that is not to be shown: %s", code)
	}
	p.edge.must("policy.put", `{"name":"dark","policy":"forbid (principal == Operator::\"centre\", action == Action::\"skill:invoke\", resource);"}`)
	if code, body := p.sets("forbidden", time.Minute); code != protocol.PermissionDenied || p.ran("forbidden") != 0 {
		t.Errorf("the policy of the edge holds not for the centre: %s %s", code, body)
	}
}

// TestCallsCrossABadLine calls over a line that drops, delays and reorders: none is
// run twice, and one that succeeded was run.
func TestCallsCrossABadLine(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.lamp()
	p.becomes("plant.lamp", "online")
	p.line.isRough(true)
	const callers, calls = 4, 25
	outcomes := make([]map[string]protocol.Code, callers)
	var calling sync.WaitGroup
	for i := range callers {
		outcomes[i] = map[string]protocol.Code{}
		calling.Go(func() {
			for j := range calls {
				n := fmt.Sprintf("%d-%d", i, j)
				var code protocol.Code
				var body string
				eventually.Holds(t, "the lamp is there", func() bool {
					code, body = p.sets(n, time.Minute)
					return code != protocol.AgentOffline && code != protocol.Busy // then nothing was sent
				})
				if code == "" && !strings.Contains(body, fmt.Sprintf(`"n":%q`, n)) {
					t.Errorf("call %s has the answer of another: %s", n, body)
				}
				outcomes[i][n] = code
			}
		})
	}
	calling.Wait()
	good, seen := 0, []protocol.Code{}
	for _, of := range outcomes {
		for n, code := range of {
			ran := p.ran(n)
			switch {
			case ran > 1:
				t.Errorf("call %s was run %d times", n, ran)
			case code == "" && ran == 1:
				good++
			case code == "":
				t.Errorf("call %s succeeded, and was not run", n)
			case ran == 1 && code != protocol.OutcomeUnknown && code != protocol.TimedOut:
				t.Errorf("call %s was run, and its caller told %s", n, code)
			}
			if code != "" && !slices.Contains(seen, code) {
				seen = append(seen, code)
			}
		}
	}
	if p.line.wasCut() < 2 || good == 0 {
		t.Errorf("the line was cut %d times, and %d calls succeeded", p.line.wasCut(), good)
	}
	t.Logf("the line was cut %d times; %d of %d calls succeeded, others ended with %v", p.line.wasCut(), good, callers*calls, seen)
	p.line.isRough(false)
	var body string
	eventually.Holds(t, "a call succeeds after that", func() bool {
		var code protocol.Code
		code, body = p.sets("after", time.Minute)
		return code == ""
	}, &body)
}

// TestALineThatBreaksAfterTheSend breaks the line while the lamp works: its caller
// learns that nobody knows what came of it, whether or not the line is back in time.
func TestALineThatBreaksAfterTheSend(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.lamp()
	for _, n := range []string{"lost", "lost again"} {
		p.becomes("plant.lamp", "online")
		hold := make(chan struct{})
		p.mu.Lock()
		p.hold = hold
		p.mu.Unlock()
		var code protocol.Code
		var body string
		done := make(chan struct{})
		go func() {
			defer close(done)
			code, body = p.sets(n, time.Minute)
		}()
		eventually.Holds(t, "the lamp works", func() bool { return p.ran(n) == 1 })
		p.line.rests(true)
		<-done
		if code != protocol.OutcomeUnknown || !strings.Contains(body, "plant.lamp") {
			t.Errorf("a call whose line broke after the send ends with %s %s", code, body)
		}
		close(hold)
		p.line.rests(false)
	}
	p.becomes("plant.lamp", "online")
	if code, body := p.sets("after", time.Minute); code != "" || p.ran("lost") != 1 || p.ran("lost again") != 1 {
		t.Errorf("the lamp worked %d and %d times, and then: %s %s", p.ran("lost"), p.ran("lost again"), code, body)
	}
}

// TestASiteThatStartsAnew restarts the edge: what is not there any more is gone from
// the centre, and the rest is back.
func TestASiteThatStartsAnew(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	lamp := p.lamp()
	p.becomes("plant.lamp", "online")
	p.line.rests(true)
	p.becomes("plant.lamp", "offline")
	_ = lamp.Close()
	p.edge.must("agent.unregister", `{"agent_id":"lamp"}`)
	p.edge.Restart(t)
	p.line.rests(false)
	p.becomes("plant.lamp", "")
	p.lamp()
	p.becomes("plant.lamp", "online")
	if code, body := p.sets("anew", time.Minute); code != "" {
		t.Errorf("after the restart: %s %s", code, body)
	}
}
