package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// What is set at one bridge reaches a device that is connected to another, and
// what it reports there is known to the first. Changes that are made at both at
// once all count.
func TestStateIsTheSameAtAllBridges(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	device := b.Connect(t, "stat")
	device.Listen(t, "aibridge/agent/stat/state/delta")
	callers := map[string]*bridgetest.Raw{"a": a.Caller(t, "at-a"), "b": b.Caller(t, "at-b")}
	must(t, callers["a"], "agent.register", `{"agent_id":"stat","type":"end_agent","skills":[`+heating+`]}`)
	must(t, callers["a"], "state.desired.set", `{"agent_id":"stat","skill_id":"heating","state":{"celsius":21}}`)
	showsState(t, device, `delta {"heating":{"celsius":21}}`)

	watcher := a.Connect(t, "watcher")
	watcher.Listen(t, "aibridge/agent/stat/state/#")
	showsState(t, watcher, `desired {"heating":{"celsius":21}}`, `delta {"heating":{"celsius":21}}`)
	if reason := reports(t, device, `{"heating":{"celsius":21}}`); reason != 0 {
		t.Fatalf("0x%02X", reason)
	}
	showsState(t, device, `delta {}`)
	showsState(t, watcher, `reported {"heating":{"celsius":21}}`, `delta {}`)
	watcher.Drop()

	const rounds = 10
	for n := range rounds {
		for at, c := range callers {
			c.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "state.desired.set",
				fmt.Sprintf(`{"agent_id":"stat","skill_id":"heating","state":{"by_%s":%d}}`, at, n)))
		}
		for at, c := range callers {
			if answer := c.Answer(t); answer.Err != nil {
				t.Fatalf("at %s: %v", at, answer.Err)
			}
		}
	}
	for at, c := range callers {
		var got string
		eventually.Holds(t, at+" knows all changes", func() bool {
			got = string(must(t, c, "state.get", `{"agent_id":"stat"}`))
			return strings.Contains(got, fmt.Sprintf(`"version":%d,`, 1+2*rounds)) &&
				strings.Contains(got, fmt.Sprintf(`"state":{"by_a":%d,"by_b":%[1]d,"celsius":21}`, rounds-1))
		}, &got)
	}

	must(t, callers["a"], "agent.unregister", `{"agent_id":"stat"}`)
	for at, n := range map[string]*bridgetest.Node{"a": a, "b": b} {
		eventually.Holds(t, "nothing is left at "+at, func() bool { return len(retainedBy(t, n)) == 0 })
	}
}

// retainedBy lists what a bridge retains of the state of agents, by a
// subscription whose end a message of the client's own marks.
func retainedBy(t *testing.T, n *bridgetest.Node) (topics []string) {
	t.Helper()
	c := n.Connect(t, protocol.NewID())
	defer c.Drop()
	c.Listen(t, "aibridge/agent/+/state/#")
	c.Listen(t, "end/"+c.ID)
	c.Send(t, "end/"+c.ID, "end")
	for {
		p := c.Next(t)
		if strings.HasPrefix(p.Topic, "end/") {
			return topics
		}
		topics = append(topics, p.Topic)
	}
}
