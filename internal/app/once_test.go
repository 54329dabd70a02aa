package app_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// TestARequestRunsOnceAtAllBridges repeats requests at other bridges: while they
// run, when they have ended, and when their bridge has.
func TestARequestRunsOnceAtAllBridges(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	a, b, c := n[0].Caller(t, "at-a"), n[1].Caller(t, "at-b"), n[2].Caller(t, "at-c")
	device := n[0].Device(t, "lamp", "light", `["switch"]`)
	everywhere(t, "lamp", "online", b, c)
	send := func(to *bridgetest.Raw, id, params string) {
		t.Helper()
		to.Send(t, "aibridge/bridge/request", envelope(id, "skill.invoke", `{"skill_id":"light","capability_id":"switch","params":`+params+`}`, `{"timeout":300000}`))
	}
	same := func(to *bridgetest.Raw, what string) {
		t.Helper()
		if answer := to.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), `"on":1`) {
			t.Errorf("%s, %s hears %s %v", what, to.ID, answer.Result, answer.Err)
		}
	}
	fails := func(to *bridgetest.Raw, what string, code protocol.Code) {
		t.Helper()
		if answer := to.Answer(t); answer.Err == nil || answer.Err.Code != code {
			t.Errorf("%s, %s hears %s %v", what, to.ID, answer.Result, answer.Err)
		}
	}

	send(b, "one", `{"n":1}`)
	call := device.Invocation(t)
	send(c, "one", `{"n":1}`)
	send(a, "one", `{"n":1}`)
	device.Reply(t, "lamp", call, map[string]any{"on": 1})
	for _, to := range []*bridgetest.Raw{a, b, c} {
		same(to, "while it runs")
	}
	send(a, "one", `{"n":1}`)
	same(a, "when it has ended")
	fourth := together(t, url, "d", n[0])
	d := fourth.Caller(t, "at-d")
	send(d, "one", `{"n":1}`)
	same(d, "at a bridge that came later")
	send(b, "one", `{"n":2}`)
	fails(b, "of another request", protocol.IDReused)
	send(d, "one", `{"n":2}`)
	fails(d, "of another request", protocol.IDReused)

	// A failure is an answer, too.
	device.Drop()
	everywhere(t, "lamp", "offline", a, b, c)
	send(c, "two", `{}`)
	fails(c, "without the agent", protocol.AgentOffline)
	device = n[0].Connect(t, "lamp")
	device.Listen(t, "aibridge/agent/lamp/request")
	everywhere(t, "lamp", "online", a, b, c)
	send(b, "two", `{}`)
	fails(b, "when the agent is back", protocol.AgentOffline)

	// Of what a bridge has left nobody knows whether it was done.
	send(c, "three", `{}`)
	device.Invocation(t)
	send(b, "three", `{}`)
	verdict(t, url, "c")
	fails(b, "when its bridge has ended", protocol.OutcomeUnknown)
	_ = n[2].Ended(t)
	send(a, "three", `{}`)
	fails(a, "when its bridge has ended", protocol.OutcomeUnknown)
	select {
	case p := <-device.Received:
		if !strings.Contains(string(p.Payload), "task.cancel") {
			t.Errorf("the agent is asked again: %s", p.Payload)
		}
	default:
	}
}
