package a2a

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A fakeBus is an agent on MQTT. Each function answers one request.
type fakeBus struct {
	mu    sync.Mutex
	card  BusCard
	asked []string
	does  []func(replies chan []byte) error
}

func (b *fakeBus) Card(protocol.SpaceID, string) (BusCard, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.card, len(b.card.Text) > 0
}

func (b *fakeBus) Ask(_ protocol.SpaceID, _ string, _ protocol.Party, body []byte, _ time.Duration) (<-chan []byte, func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	replies := make(chan []byte, 8)
	b.asked = append(b.asked, string(body))
	do := b.does[min(len(b.asked), len(b.does))-1]
	return replies, func() {}, do(replies)
}

func silent(chan []byte) error { return nil }
func away(chan []byte) error   { return errors.New("nobody listens") }

func replying(results ...string) func(chan []byte) error {
	return func(replies chan []byte) error {
		for _, r := range results {
			replies <- []byte(wrapped(bindingRPC, r))
		}
		return nil
	}
}

// [A2AM-requester-1] [A2AM-requester-2] [A2AM-requester-3] [A2AM-requester-4] [A2AM-requester-5]
func TestRequestsOverMQTTAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		does   []func(chan []byte) error
		stream bool
		asked  string // operations
		code   protocol.Code
	}{
		"answered at once":      {[]func(chan []byte) error{replying(`{"task":` + doneTask + `}`)}, false, "SendMessage", ""},
		"answered at the third": {[]func(chan []byte) error{silent, away, replying(`{"task":` + doneTask + `}`)}, false, "SendMessage SendMessage SendMessage", ""},
		"never answered":        {[]func(chan []byte) error{silent}, false, "SendMessage SendMessage SendMessage", protocol.OutcomeUnknown},
		"never there":           {[]func(chan []byte) error{away}, false, "SendMessage SendMessage SendMessage", protocol.TargetUnavailable},
		"a stream":              {[]func(chan []byte) error{replying(begunTask, warming, lump, more, ended)}, true, "SendStreamingMessage", ""},
		"a stream that stalls":  {[]func(chan []byte) error{replying(begunTask, warming), replying(doneTask)}, true, "SendStreamingMessage GetTask", ""},
		"an error, after which it ends": {[]func(chan []byte) error{func(r chan []byte) error {
			r <- []byte(`{"jsonrpc":"2.0","id":"1","error":{"code":-32004,"message":"busy","data":{"a2a_error":"responder_unavailable"}}}`)
			return nil
		}}, false, "SendMessage", protocol.TargetUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus := &fakeBus{does: one.does}
			k := &talk{way: &busWay{bus: bus, first: 100 * time.Millisecond, idle: 100 * time.Millisecond, delay: time.Millisecond}, stream: one.stream, tell: func(string) {}}
			r, err := k.run(t.Context(), outgoing{ID: "m-1", Task: "t-1", Context: "c-1", Role: "ROLE_USER"})
			if one.code == "" && (err != nil || r.State != completed || r.Text != "21 degrees") || one.code != "" && (err == nil || err.Code != one.code) {
				t.Errorf("got %+v %v", r, err)
			}
			var operations []string
			for _, body := range bus.asked {
				var request struct{ Method string }
				_ = json.Unmarshal([]byte(body), &request) // shown if it is wrong
				operations = append(operations, request.Method)
				if request.Method != "GetTask" && !strings.Contains(body, `"taskId":"t-1"`) {
					t.Errorf("a try has another task: %s", body)
				}
			}
			if got := strings.Join(operations, " "); got != one.asked {
				t.Errorf("it was asked %s, want %s", got, one.asked)
			}
		})
	}
}

// [A2AM-requester-6]
func TestTheDefaultsOfRequestersAreThoseOfTheProfile(t *testing.T) {
	t.Parallel()
	if replyFirst != 15*time.Second || streamIdle != 30*time.Second || mostTries != 3 {
		t.Error("they are others")
	}
	w := &busWay{delay: firstDelay}
	for attempt, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		waits := []time.Duration{}
		for range 200 {
			waits = append(waits, w.backoff(attempt+1))
		}
		if slices.Min(waits) < want-want/5 || slices.Max(waits) > want+want/5 || slices.Min(waits) == slices.Max(waits) {
			t.Errorf("before try %d it waits %v to %v", attempt+2, slices.Min(waits), slices.Max(waits))
		}
	}
}
