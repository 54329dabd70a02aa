package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// calls is a provider's answer that calls tools: name, arguments, name,
// arguments and so on. Dots in names are not for this wire.
func calls(pairs ...string) scripted.Reply {
	var list []any
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]any{"id": fmt.Sprint("call_", i/2), "type": "function", "function": map[string]any{
			"name": strings.ReplaceAll(pairs[i], ".", "_"), "arguments": pairs[i+1],
		}})
	}
	body, _ := json.Marshal(map[string]any{
		"model":   "m-1",
		"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "tool_calls": list}, "finish_reason": "tool_calls"}},
		"usage":   map[string]any{"prompt_tokens": 20, "completion_tokens": 10},
	})
	return scripted.JSON(200, string(body))
}

// toldAt are the messages that the model was shown in the n-th request.
func toldAt(t testing.TB, s *scripted.Server, n int) string {
	t.Helper()
	all := s.Requests()
	if len(all) <= n {
		t.Fatalf("the model was asked %d times", len(all))
	}
	var asked struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
			ID      string `json:"tool_call_id"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(all[n].Body, &asked); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range asked.Messages {
		fmt.Fprintf(&b, "%s: %v\n", m.Role, m.Content)
	}
	return b.String()
}

// A thermostat is a device that keeps a temperature. It answers until the test
// ends.
type thermostat struct {
	mu      sync.Mutex
	celsius float64
	traces  []string
	sets    int
}

const climate = `[{"capability_id":"set","risk":"high","description":"Sets the temperature.","params_schema":{"type":"object","properties":{"celsius":{"type":"number"}},"required":["celsius"]}},{"capability_id":"read","idempotent":true,"description":"Reads the temperature."}]`

func (d *thermostat) serve(t testing.TB, device *bridgetest.Raw, agent string) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case p := <-device.Received:
				request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
				if err != nil {
					continue
				}
				device.Reply(t, agent, request, d.do(request))
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); done.Wait() })
}

func (d *thermostat) do(request *protocol.Request) any {
	var p struct {
		Capability string `json:"capability_id"`
		Params     struct {
			Celsius float64 `json:"celsius"`
		} `json:"params"`
	}
	_ = json.Unmarshal(request.Params, &p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.traces = append(d.traces, request.Metadata.TraceID)
	if p.Capability == "set" {
		d.celsius, d.sets = p.Params.Celsius, d.sets+1
	}
	return map[string]float64{"celsius": d.celsius}
}

func (d *thermostat) state() (celsius float64, sets int, traces []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.celsius, d.sets, append([]string(nil), d.traces...)
}

func (d *thermostat) reset(celsius float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.celsius, d.sets, d.traces = celsius, 0, nil
}

// A flat is a bridge with two thermostats in a group, a model, somebody who
// asks it and somebody who approves what it does.
type flat struct {
	*house
	model         *scripted.Server
	north, south  *thermostat
	caller, guard *bridgetest.Raw
	trace         string // of the story that is told: who was denied in it is not asked again
}

func newFlat(t *testing.T, change ...func(*app.Config)) *flat {
	t.Helper()
	f := &flat{model: scripted.ForBridge(t, says(".")), north: new(thermostat), south: new(thermostat)}
	f.house = newHouse(t, append(change, withModel(f.model))...)
	f.caller = f.connect("carol-pc", f.key(protocol.KindOperator, "carol", protocol.RoleOperator))
	f.guard = f.connect("alice-phone", f.key(protocol.KindOperator, "alice", protocol.RoleOperator))
	for name, d := range map[string]*thermostat{"north": f.north, "south": f.south} {
		device := f.connect(name, f.key(protocol.KindAgent, name, protocol.RoleEndAgent))
		for _, q := range []struct{ command, params string }{
			{"agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, name)},
			{"skill.register", fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":%q,"name":"Thermostat","description":"Of a room","version":"1.0.0","type":"custom","capabilities":%s}}`, name, name, climate)},
		} {
			if a := f.ask(device, q.command, q.params); a.Err != nil {
				t.Fatalf("%s: %v", q.command, a.Err)
			}
		}
		device.Listen(t, "aibridge/agent/"+name+"/request")
		d.serve(t, device, name)
	}
	for _, q := range []struct{ command, params string }{
		{"cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"north"}`},
		{"group.member.add", `{"cap_id":"home","group_id":"heat","skill_id":"north","role":"room"}`},
		{"group.member.add", `{"cap_id":"home","group_id":"heat","skill_id":"south","role":"room"}`},
	} {
		if a := f.ask(f.caller, q.command, q.params); a.Err != nil {
			t.Fatalf("%s: %v", q.command, a.Err)
		}
	}
	f.guard.Listen(t, "aibridge/event/approval")
	return f
}

// part runs a test in the flat, which is as cold as at first.
func (f *flat) part(t *testing.T, name string, run func(t *testing.T, f *flat), script ...scripted.Reply) {
	t.Run(name, func(t *testing.T) {
		f.t, f.trace = t, "story-"+strings.ReplaceAll(name, " ", "-")
		f.model.Play(script...)
		f.north.reset(15)
		f.south.reset(16)
		run(t, f)
	})
}

// query has carol ask the model, in a trace.
func (f *flat) query(params string) {
	f.n++
	f.caller.Send(f.t, "aibridge/bridge/request", envelope(fmt.Sprint("story", f.n), "llm.query", params, fmt.Sprintf(`{"timeout":60000,"trace_id":%q}`, f.trace)))
}

func (f *flat) answer() llm.QueryResult {
	f.t.Helper()
	a := f.caller.Answer(f.t)
	if a.Err != nil {
		f.t.Fatalf("the query: %v %v", a.Err, a.Err.Details)
	}
	var got llm.QueryResult
	if err := json.Unmarshal(a.Result, &got); err != nil {
		f.t.Fatal(err)
	}
	return got
}

// hears is the next event about an approval that alice hears.
func (f *flat) hears(name string) approval.Approval {
	f.t.Helper()
	for {
		p := f.guard.Next(f.t)
		if p.Topic != "aibridge/event/approval" {
			continue
		}
		event, err := protocol.DecodeEvent(p.Payload, protocol.Limits{})
		if err != nil {
			f.t.Fatal(err)
		}
		if event.Name != name {
			continue
		}
		var a approval.Approval
		if err := json.Unmarshal(event.Data, &a); err != nil {
			f.t.Fatal(err)
		}
		return a
	}
}

// decide decides on alice's behalf.
func (f *flat) decide(a approval.Approval, decision, reason string) {
	f.t.Helper()
	f.guard.Send(f.t, "aibridge/bridge/request", bridgetest.Request(a.ID, "approval.decide",
		fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":%q,"reason":%q}`, a.ID, a.Nonce, decision, reason)))
}

const warmUp = `{"cap_id":"home","group_id":"heat","capability_id":"set","params":{"celsius":21}}`

// TestWhatModelsDoInAFlat tells stories of one bridge, one after the other.
func TestWhatModelsDoInAFlat(t *testing.T) {
	hooks := make(chan toldHook, 64)
	f := newFlat(t, withWebhook(t, hooks))
	f.part(t, "a model sets two thermostats that somebody approved and reads them back", setsTwoThermostats,
		calls("group.dispatch", warmUp), calls("north.read", `{}`, "south.read", `{}`), says("Both rooms are set to 21 degrees."))
	f.part(t, "what a model did can be told from its query to the device", canBeTold,
		calls("north.read", `{"why":"a secret"}`, "north.raed", `{}`), says("It is 15."))
	f.part(t, "a model reads why it was denied", isDenied,
		calls("north.set", `{"celsius":"30"}`), says("Alice does not want it that warm."))
	f.part(t, "nobody is asked about direct calls", actsDirectly,
		says("."))
	f.part(t, "policy decides what models may do", obeysPolicy,
		calls("north.read", `{}`), says("I may not."), calls("north.read", `{}`), says("It is 15."))
	f.part(t, "a webhook tells who then decides over HTTP", func(t *testing.T, f *flat) { decidesByWebhook(t, f, hooks) },
		calls("north.set", `{"celsius":17}`), says("It is 17."))
	f.part(t, "only the space hears of its approvals", isHeardInItsSpace, calls("north.set", `{"celsius":30}`), says("."))
	f.part(t, "slash commands run tools as the user", obeysSlashes, says("I am not asked."))
	f.part(t, "a conversation uses tools", usesToolsInAConversation, calls("north.read", `{}`), says("It is 15 degrees."))
	f.part(t, "a call that waits when the bridge stops is decided after it", waitsAtTheEnd,
		calls("north.set", `{"celsius":30}`), says("."))
	f.part(t, "the conversation outlives the bridge", goesOnWithTheConversation, says("As I said, 15."))
}

func setsTwoThermostats(t *testing.T, f *flat) {
	f.query(`{"query":"Warm the flat up to 21 degrees.","tools":["group.dispatch","*.read"]}`)

	a := f.hears("approval.requested")
	if a.Tool != "group.dispatch" || a.Requester != "carol" || strings.Join(a.Roster, " ") != "north south" || !strings.Contains(string(a.Args), `"celsius":21`) || a.TraceID != f.trace {
		t.Errorf("asked %+v", a)
	}
	if celsius, sets, _ := f.north.state(); celsius != 15 || sets != 0 {
		t.Errorf("it is %v before anybody agreed", celsius)
	}
	own := f.ask(f.caller, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, a.ID, a.Nonce))
	if own.Err == nil || own.Err.Code != protocol.PermissionDenied {
		t.Errorf("carol approves her own: %v", own.Err)
	}
	f.decide(a, "approve", "")
	got := f.answer()
	if got.Result != "Both rooms are set to 21 degrees." || got.TokensUsed != 75 || got.Tools == nil || got.Tools.Rounds != 3 || got.Tools.Success != 3 || got.Tools.Stop != "" {
		t.Errorf("got %+v, %+v", got, got.Tools)
	}
	for name, d := range map[string]*thermostat{"north": f.north, "south": f.south} {
		celsius, sets, traces := d.state()
		if celsius != 21 || sets != 1 || len(traces) != 2 || traces[0] != f.trace || traces[1] != f.trace {
			t.Errorf("%s is at %v, set %d times, in %v", name, celsius, sets, traces)
		}
	}
	told := toldAt(t, f.model, 2)
	if !strings.Contains(told, `"skill_id":"north"`) || !strings.Contains(told, `"state":"ok"`) || strings.Count(told, `tool: {"celsius":21}`) != 2 {
		t.Errorf("the model was told\n%s", told)
	}
	if used := f.hears("approval.used"); used.ID != a.ID || used.DecidedBy != "alice" {
		t.Errorf("used %+v", used)
	}
	entries := f.must("audit.query", `{"limit":200}`)
	for _, want := range []string{`"approval.requested"`, `"approval.approved"`, `"approval.used"`, `"group.dispatch"`} {
		if !strings.Contains(entries, want) {
			t.Errorf("%s is not in the audit trail", want)
		}
	}
}

func isDenied(t *testing.T, f *flat) {
	f.query(`{"query":"Make the north room 30 degrees.","tools":["north.*"]}`)
	a := f.hears("approval.requested")
	if a.Tool != "north.set" || string(a.Args) != `{"celsius":30}` {
		t.Errorf("asked %+v", a)
	}
	f.decide(a, "deny", "that is far too warm")
	got := f.answer()
	if got.Result != "Alice does not want it that warm." || got.Tools.Failed != 1 || got.Tools.Calls[0].Code != protocol.PermissionDenied {
		t.Errorf("got %+v, %+v", got, got.Tools)
	}
	if told := toldAt(t, f.model, 1); !strings.Contains(told, "tool: Error: alice denied the call: that is far too warm") {
		t.Errorf("the model was told\n%s", told)
	}
	if celsius, sets, _ := f.north.state(); celsius != 15 || sets != 0 {
		t.Errorf("it is %v", celsius)
	}
}

// canBeTold has carol ask without a trace.
func canBeTold(t *testing.T, f *flat) {
	f.n++
	f.caller.Send(t, "aibridge/bridge/request", envelope(fmt.Sprint("untraced", f.n), "llm.query", `{"query":"How warm is it?","tools":["north.*"]}`, `{"timeout":60000}`))
	answer := f.caller.Answer(t)
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	trace := answer.Metadata.TraceID
	if _, _, traces := f.north.state(); trace == "" || len(traces) != 1 || traces[0] != trace {
		t.Errorf("the answer is of the trace %q, the device was asked in %q", trace, traces)
	}
	var got llm.QueryResult
	if err := json.Unmarshal(answer.Result, &got); err != nil {
		t.Fatal(err)
	}
	if calls := got.Tools.Calls; len(calls) != 2 || string(calls[0].Arguments) != `{"why":"a secret"}` || string(calls[1].Arguments) != `{}` {
		t.Errorf("the calls are %+v", got.Tools.Calls)
	}
	var found audit.QueryResult
	if err := json.Unmarshal([]byte(f.must("audit.query", `{"event":"tool.call","limit":2}`)), &found); err != nil {
		t.Fatal(err)
	}
	told := make(map[string]audit.Entry)
	for _, e := range found.Entries {
		told[e.Resource] = e
	}
	if e := told["tool/north.read"]; e.TraceID != trace || e.Principal != "carol" || e.Code != audit.OK || string(e.Params) != `{"why":"a secret"}` || e.Sealed != nil {
		t.Errorf("the audit trail says %+v", e)
	}
	if e := told["tool/north_raed"]; e.Code != string(protocol.NotFound) || string(e.Params) != `{}` {
		t.Errorf("of a tool that there is not the audit trail says %+v", e)
	}
	if query := f.must("audit.query", `{"event":"llm.query","limit":1}`); !strings.Contains(query, trace) {
		t.Errorf("the query is of another trace: %s", query)
	}
}

func actsDirectly(t *testing.T, f *flat) {
	a := f.ask(f.caller, "skill.invoke", `{"skill_id":"north","capability_id":"set","params":{"celsius":19}}`)
	if celsius, _, _ := f.north.state(); a.Err != nil || celsius != 19 {
		t.Errorf("it is %v, %v", celsius, a.Err)
	}
}

func obeysPolicy(t *testing.T, f *flat) {
	f.must("policy.put", `{"name":"quiet","policy":"forbid (principal, action == Action::\"tool:run\", resource) when { resource.id like \"north.*\" };"}`)
	f.query(`{"query":"How warm is it?","tools":["north.*"]}`)
	if got := f.answer(); got.Tools.Failed != 1 || !slices.Contains(got.Tools.Notices, "no model may call north.read: policy forbids it; a person can, by skill.invoke") {
		t.Errorf("got %+v", got.Tools)
	}
	if asked := f.model.Requests(); strings.Contains(string(asked[len(asked)-1].Body), `"tools"`) {
		t.Errorf("the model is offered tools that policy forbids: %s", asked[len(asked)-1].Body)
	}
	f.must("policy.put", `{"name":"quiet","policy":"forbid (principal, action == Action::\"tool:unattended\", resource) when { resource.id like \"north.*\" };"}`)
	f.query(`{"query":"How warm is it now?","tools":["north.*"]}`)
	a := f.hears("approval.requested")
	f.decide(a, "approve", "")
	if got := f.answer(); got.Tools.Success != 1 || got.Tools.Calls[0].Text != `{"celsius":15}` {
		t.Errorf("got %+v", got.Tools)
	}
	f.must("policy.remove", `{"name":"quiet"}`)
}

func waitsAtTheEnd(t *testing.T, f *flat) {
	f.query(`{"query":"Warm!","tools":["north.*"]}`)
	a := f.hears("approval.requested")
	f.Restart(t)
	code, body := f.run(f.admin, "approval.get", fmt.Sprintf(`{"approval_id":%q}`, a.ID))
	if code != "" || !strings.Contains(body, `"pending"`) || a.Task == "" {
		t.Errorf("after a restart: %s %s", code, body)
	}
	if code, body := f.run(f.admin, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"deny","reason":"too late"}`, a.ID, a.Nonce)); code != "" {
		t.Errorf("decided: %s %s", code, body)
	}
	eventually.Holds(t, "the model has answered", func() bool {
		return strings.Contains(f.must("task.get", fmt.Sprintf(`{"task_id":%q}`, a.Task)), `"succeeded"`)
	})
	if told := toldAt(t, f.model, 1); !strings.Contains(told, "tool: Error: administrator denied the call: too late") {
		t.Errorf("the model was told\n%s", told)
	}
	if celsius, _, _ := f.north.state(); celsius != 15 {
		t.Errorf("it is %v", celsius)
	}
}

// TestQueriesThatAreToolsKnowWhatTheyAreWithin has the model ask itself until
// it may no more.
func TestQueriesThatAreToolsKnowWhatTheyAreWithin(t *testing.T) {
	t.Parallel()
	f := newFlat(t, func(c *app.Config) {
		c.Tools.Commands = []string{"llm.query"}
		c.ToolLoop.Depth = 2
	})
	again := calls("llm.query", `{"query":"And you?","tools":["llm.query"]}`)
	f.part(t, "three deep", func(t *testing.T, f *flat) {
		f.query(`{"query":"Ask yourself.","tools":["llm.query"]}`)
		got := f.answer()
		if n := len(f.model.Requests()); got.Result != "The second." || n != 4 || got.Tools.Success != 1 {
			t.Errorf("got %+v, asked %d times", got, n)
		}
		if told := toldAt(t, f.model, 2); !strings.Contains(told, "models have called each other 2 times") {
			t.Errorf("the innermost that ran was told\n%s", told)
		}
	}, again, again, says("The first."), says("The second."))
}
