package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// An agentSeen is an agent as agent.get shows it.
type agentSeen struct {
	Status string `json:"status"`
	Since  int64  `json:"since"`
}

func seeAgent(t *testing.T, c *bridgetest.Raw, id string) (seen agentSeen) {
	t.Helper()
	answer := c.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, id)))
	if answer.Err != nil { // its registration may not be here yet
		return seen
	}
	if err := json.Unmarshal(answer.Result, &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

// everywhere waits until an agent has a status for all callers.
func everywhere(t *testing.T, id, status string, callers ...*bridgetest.Raw) {
	t.Helper()
	for _, c := range callers {
		var got agentSeen
		eventually.Holds(t, fmt.Sprintf("%s is %s for %s", id, status, c.ID), func() bool {
			got = seeAgent(t, c, id)
			return got.Status == status
		}, &got)
	}
}

func TestAnAgentIsThereForAllBridges(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	a, b, c := n[0].Caller(t, "at-a"), n[1].Caller(t, "at-b"), n[2].Caller(t, "at-c")
	watcher := n[1].Connect(t, "watcher")
	watcher.Listen(t, "aibridge/agent/event", "aibridge/agent/lamp/card")
	device := n[0].Device(t, "lamp", "light", `["switch"]`)
	everywhere(t, "lamp", "online", a, b, c)
	if one, other := seeAgent(t, a, "lamp"), seeAgent(t, c, "lamp"); one.Since == 0 || one.Since != other.Since {
		t.Errorf("it is there since %d and %d", one.Since, other.Since)
	}
	card := func(want string) {
		t.Helper()
		for {
			p := watcher.Next(t)
			if strings.HasSuffix(p.Topic, "/card") && strings.Contains(string(p.Payload), fmt.Sprintf(`"status":%q`, want)) {
				return
			}
		}
	}
	card("online")

	// A bridge that comes later knows it from the start.
	late := together(t, url, "d", n[0])
	if got := seeAgent(t, late.Caller(t, "at-d"), "lamp"); got.Status != "online" {
		t.Errorf("for a bridge that comes later it is %s", got.Status)
	}

	// What it registers again as another client ends its connection elsewhere.
	again := n[2].Caller(t, "lamp-2")
	must(t, again, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	again.Listen(t, "aibridge/agent/lamp/request")
	if d := <-device.Dismissed; d.ReasonCode != 0x8E {
		t.Errorf("the connection before ends with %#x", d.ReasonCode)
	}
	b.Send(t, "aibridge/bridge/request", bridgetest.Request("moved", "skill.invoke", `{"skill_id":"light","capability_id":"switch"}`))
	again.Reply(t, "lamp", again.Invocation(t), map[string]any{})
	if answer := b.Answer(t); answer.Err != nil {
		t.Errorf("where it is now: %v", answer.Err)
	}
	again.Drop()
	everywhere(t, "lamp", "offline", a, b, c)
	card("offline")
}

func TestAnAgentIsAskedThroughAllBridges(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	b, c := n[1].Caller(t, "at-b"), n[2].Caller(t, "at-c")
	device := n[0].Device(t, "lamp", "light", `["switch"]`)
	everywhere(t, "lamp", "online", b, c)
	const invoke = `{"skill_id":"light","capability_id":"switch"}`

	// Progress comes before the answer.
	b.Send(t, "aibridge/bridge/request", envelope("one", "skill.invoke", invoke, `{"events":true}`))
	call := device.Invocation(t)
	device.Send(t, "aibridge/agent/lamp/response", fmt.Sprintf(`{"version":"0.6.3","type":"event","event":"task.progress","id":%q,"timestamp":0,"data":{"done":0.5}}`, call.ID))
	device.Reply(t, "lamp", call, map[string]any{"on": true})
	if p := b.Next(t); !strings.Contains(string(p.Payload), "task.progress") {
		t.Errorf("before the answer comes %s", p.Payload)
	}
	if answer := b.Answer(t); answer.Err != nil || answer.ID != "one" || !strings.Contains(string(answer.Result), `"on":true`) {
		t.Errorf("the answer is %+v", answer)
	}

	// What cannot be read is about the request that its Correlation Data names.
	c.Send(t, "aibridge/bridge/request", bridgetest.Request("two", "skill.invoke", invoke))
	request := device.Next(t)
	device.SendCorrelated(t, "aibridge/agent/lamp/response", "oops", string(request.Properties.CorrelationData))
	if answer := c.Answer(t); answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown || answer.ID != "two" {
		t.Errorf("the answer is %+v", answer)
	}

	// A caller that gives up has the agent told.
	b.Send(t, "aibridge/bridge/request", envelope("three", "skill.invoke", invoke, `{"timeout":1500}`))
	call = device.Invocation(t)
	if stop := device.Invocation(t); stop.Command != "task.cancel" || !strings.Contains(string(stop.Params), call.ID) {
		t.Errorf("it is told %s %s", stop.Command, stop.Params)
	}
	if answer := b.Answer(t); answer.Err == nil || answer.Err.Code != protocol.TimedOut {
		t.Errorf("the answer is %+v", answer)
	}

	// An agent that goes with what it was asked leaves its outcome unknown.
	c.Send(t, "aibridge/bridge/request", envelope("four", "skill.invoke", invoke, `{"timeout":300000}`))
	device.Invocation(t)
	device.Drop()
	if answer := c.Answer(t); answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown {
		t.Errorf("the answer is %+v", answer)
	}
}

func TestAgentsWithoutMQTTAreAskedThroughAllBridges(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := bridgetest.Start(t, beside(t, url, "a", nil), allowPrivate)
	b := bridgetest.Start(t, beside(t, url, "b", a), allowPrivate)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(body, protocol.Limits{})
		if err != nil {
			t.Errorf("the endpoint gets %s: %v", body, err)
		}
		fmt.Fprintf(w, `{"id":%q,"status":"success","result":{"by":"endpoint"}}`, q.ID)
	}))
	t.Cleanup(server.Close)
	if status, body := post(t, a.HTTPURL("/api/v1/commands/agent.register"), agentWithSkill("web", `,"endpoints":["`+server.URL+`"]`)); status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	socket := dialAgent(t, a)
	socket.register(t, "socket")
	caller := b.Caller(t, "caller")
	everywhere(t, "socket", "online", caller)
	everywhere(t, "web", "online", caller)
	must(t, caller, "skill.invoke", `{"skill_id":"web","capability_id":"switch"}`)
	for id := range 2 {
		caller.Send(t, "aibridge/bridge/request", bridgetest.Request(fmt.Sprint("call-", id), "skill.invoke", `{"skill_id":"socket","capability_id":"switch"}`))
		socket.succeed(t, socket.invocation(t).ID)
		if answer := caller.Answer(t); answer.Err != nil {
			t.Errorf("over /ws: %v", answer.Err)
		}
	}
	caller.Send(t, "aibridge/bridge/request", envelope("last", "skill.invoke", `{"skill_id":"socket","capability_id":"switch"}`, `{"timeout":300000}`))
	socket.invocation(t)
	_ = socket.conn.CloseNow()
	if answer := caller.Answer(t); answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown {
		t.Errorf("the answer is %+v", answer)
	}
	everywhere(t, "socket", "offline", caller)
}

// TestABridgeDiesWithCallsInFlight has a bridge declared dead while an agent of
// its is asked by others: they hear that the outcome is unknown, the agent is
// offline for them, and online once it is connected to another bridge.
func TestABridgeDiesWithCallsInFlight(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	a, b := n[0].Caller(t, "at-a"), n[1].Caller(t, "at-b")
	device := n[2].Device(t, "lamp", "light", `["switch"]`)
	everywhere(t, "lamp", "online", a, b)
	for _, c := range []*bridgetest.Raw{a, b} {
		c.Send(t, "aibridge/bridge/request", envelope("in-flight-"+c.ID, "skill.invoke", `{"skill_id":"light","capability_id":"switch"}`, `{"timeout":300000}`))
		device.Invocation(t)
	}
	verdict(t, url, "c")
	for _, c := range []*bridgetest.Raw{a, b} {
		if answer := c.Answer(t); answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown {
			t.Errorf("%s hears %+v", c.ID, answer)
		}
	}
	everywhere(t, "lamp", "offline", a, b)
	_ = n[2].Ended(t)
	back := n[1].Connect(t, "lamp")
	back.Listen(t, "aibridge/agent/lamp/request")
	everywhere(t, "lamp", "online", a, b)
	a.Send(t, "aibridge/bridge/request", bridgetest.Request("again", "skill.invoke", `{"skill_id":"light","capability_id":"switch"}`))
	back.Reply(t, "lamp", back.Invocation(t), map[string]any{})
	if answer := a.Answer(t); answer.Err != nil {
		t.Errorf("where it is back: %v", answer.Err)
	}
}

// TestADispatchAsksAgentsOfAllBridges has a dispatch of one bridge ask the agents
// of the others, and go on where its own bridge ends.
func TestADispatchAsksAgentsOfAllBridges(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	a, c := n[0].Caller(t, "at-a"), n[2].Caller(t, "at-c")
	one, two := n[0].Device(t, "lamp-1", "one", `["switch"]`), n[1].Device(t, "lamp-2", "two", `["switch"]`)
	everywhere(t, "lamp-1", "online", a, c)
	everywhere(t, "lamp-2", "online", a, c)
	home(t, c, "one", "two")
	id := dispatched(t, c, `,"deadline_ms":300000`)
	one.Reply(t, "lamp-1", one.Invocation(t), map[string]any{"lamp": 1})
	becomes(t, c, id, "running: ok pending")
	call := two.Invocation(t)
	verdict(t, url, "c")
	_ = n[2].Ended(t)
	ask := two.Invocation(t) // the oldest goes on, and asks for what is known
	if ask.Command != "task.get" || !strings.Contains(string(ask.Params), call.ID) {
		t.Fatalf("it is asked %s %s", ask.Command, ask.Params)
	}
	two.Reply(t, "lamp-2", call, map[string]any{"lamp": 2})
	two.Reply(t, "lamp-2", ask, map[string]any{"state": "done"})
	becomes(t, a, id, "complete: ok ok")
}

// TestWhatOneBridgeDoesIsCancelledThroughAnother cancels a task and a dispatch at
// bridges that do not carry them out.
func TestWhatOneBridgeDoesIsCancelledThroughAnother(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	b, c := n[1].Caller(t, "at-b"), n[2].Caller(t, "at-c")
	device := n[0].Device(t, "slow-1", "slow", `["wait","switch"]`)
	everywhere(t, "slow-1", "online", b, c)
	running := startSlowly(t, b)
	call := device.Invocation(t)
	eventually.Holds(t, "the task is known", func() bool {
		return c.Ask(t, bridgetest.Request(protocol.NewID(), "task.get", fmt.Sprintf(`{"task_id":%q}`, running))).Err == nil
	})
	cancelled := must(t, c, "task.cancel", fmt.Sprintf(`{"task_id":%q,"reason":"enough"}`, running))
	if field(t, cancelled, "state") != "cancelled" || !strings.Contains(string(cancelled), "enough") {
		t.Errorf("the task is %s", cancelled)
	}
	if stop := device.Invocation(t); stop.Command != "task.cancel" || !strings.Contains(string(stop.Params), call.ID) {
		t.Errorf("the agent is told %s %s", stop.Command, stop.Params)
	}
	again := func() *protocol.Response {
		return c.Ask(t, bridgetest.Request(protocol.NewID(), "task.cancel", fmt.Sprintf(`{"task_id":%q}`, running)))
	}
	if answer := again(); answer.Err == nil || answer.Err.Code != protocol.InvalidState {
		t.Errorf("cancelled once more: %+v", answer)
	}

	home(t, b, "slow")
	id := dispatched(t, b, `,"deadline_ms":300000`)
	device.Invocation(t)
	becomes(t, c, id, "running: pending")
	must(t, c, "task.cancel", fmt.Sprintf(`{"task_id":%q}`, id))
	becomes(t, b, id, "cancelled: cancelled")
	device.Invocation(t) // task.cancel

	// What a bridge did that has ended, the oldest has ended.
	left := startSlowly(t, b)
	device.Invocation(t)
	eventually.Holds(t, "the task is known", func() bool {
		return c.Ask(t, bridgetest.Request(protocol.NewID(), "task.get", fmt.Sprintf(`{"task_id":%q}`, left))).Err == nil
	})
	verdict(t, url, "b")
	_ = n[1].Ended(t)
	eventually.Holds(t, "the task has failed", func() bool { return state(t, c, left) == "failed" })
}

// TestRouteAgentsLeadFromAnyBridge has RouteAgents at the bridges that do not look
// after scenes: one that is there leads, one that goes hands over to the other, and
// both stay what they are when the oldest bridge ends.
func TestRouteAgentsLeadFromAnyBridge(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a, admin, _ := guarded(t, beside(t, url, "a", nil))
	strict := func(c *app.Config) { c.Dev = false }
	b := bridgetest.Start(t, beside(t, url, "b", a), strict)
	c := bridgetest.Start(t, beside(t, url, "c", a), strict)
	cert, spareCert := routes(t, admin, "router"), routes(t, admin, "spare")
	known := func(n *bridgetest.Node, agent string) {
		t.Helper()
		r := n.Caller(t, "looks-for-"+agent, withPassword("apikey", adminKey(t, a)))
		everywhere(t, agent, "online", r)
	}
	router := leads(t, b, "router", cert)
	spare := leads(t, c, "spare", spareCert)
	known(a, "router")
	known(a, "spare")
	known(c, "router")
	must(t, router, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"router","supported_scenes":["SMART_HOME"]}`)
	must(t, router, "group.member.add", `{"cap_id":"home","group_id":"all","skill_id":"spare","role":"any"}`)
	must(t, router, "scene.declare", declareRouter)
	eventually.Holds(t, "the backup takes part", func() bool {
		return spare.Ask(t, bridgetest.Request(protocol.NewID(), "scene.declare", declareSpare)).Err == nil
	})
	stands(t, admin, "active", "router")
	stands(t, spare, "active", "router")
	router.Drop()
	stands(t, admin, "active", "spare")
	router = leads(t, c, "router", cert) // at another bridge
	stands(t, admin, "active", "router")
	stands(t, spare, "active", "router")
	verdict(t, url, "a")
	_ = a.Ended(t)
	stands(t, spare, "active", "router")
	router.Drop()
	stands(t, spare, "active", "spare")
}
