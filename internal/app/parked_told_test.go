package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// TestACallerIsToldThatItsCallWaits asks over MQTT and over WebSocket, with events, and
// follows the whole conversation: the call waits, somebody agrees, it is made, and the
// answer comes where it was asked for.
func TestACallerIsToldThatItsCallWaits(t *testing.T) {
	t.Parallel()
	for name, converse := range map[string]func(t *testing.T, n *bridgetest.Node) (ask func(request string), next func() protocol.Envelope){
		"MQTT": func(t *testing.T, n *bridgetest.Node) (func(string), func() protocol.Envelope) {
			c := n.Caller(t, "me")
			return func(request string) { c.Send(t, "aibridge/bridge/request", request) }, func() protocol.Envelope {
				m, err := protocol.DecodeEnvelope(c.Next(t).Payload, protocol.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
		},
		"WebSocket": func(t *testing.T, n *bridgetest.Node) (func(string), func() protocol.Envelope) {
			c := dialAgent(t, n)
			return func(request string) { c.send(t, request) }, func() protocol.Envelope { return c.next(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bridgetest.Start(t, withModel(scripted.New(t, calls("door.open", `{}`), says("It is open."))))
			door, boss := doorAt(t, n), n.Caller(t, "boss")
			ask, next := converse(t, n)
			ask(envelope("q", "llm.query", `{"query":"Open!","tools":["door.*"],"approval_wait_ms":300000}`, `{"timeout":600000,"events":true}`))

			var waits parked.WaitingEvent
			until(t, next, func(m protocol.Envelope) bool {
				return m.Event != nil && m.Event.ID == "q" && m.Event.Name == "task.waiting" && json.Unmarshal(m.Event.Data, &waits) == nil
			})
			if waits.Tool != "door.open" || waits.Task == "" || waits.Approval == "" || waits.Expires == 0 {
				t.Errorf("it is told %+v", waits)
			}
			decide(t, boss, askedFor(t, boss, string(waits.Task)), "approve")
			door.Reply(t, "door", door.Invocation(t), map[string]any{"open": true})

			heard := map[string]bool{}
			answer := until(t, next, func(m protocol.Envelope) bool {
				if m.Event != nil {
					heard[m.Event.Name] = true
				}
				return m.Response != nil && m.Response.ID == "q"
			}).Response
			var said llm.QueryResult
			if err := json.Unmarshal(answer.Result, &said); answer.Err != nil || err != nil || !strings.Contains(said.Result, "It is open.") || said.Waiting != nil {
				t.Errorf("it is answered with %+v, %v", answer, err)
			}
			if !heard["llm.tool_result"] {
				t.Errorf("meanwhile it heard of %v", heard)
			}
		})
	}
}

// until reads messages until one is what is waited for.
func until(t *testing.T, next func() protocol.Envelope, is func(protocol.Envelope) bool) protocol.Envelope {
	t.Helper()
	for {
		if m := next(); is(m) {
			return m
		}
	}
}
