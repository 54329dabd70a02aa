package app_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestCallsOfOneCallerReachTheAgentInOrder has callers call side by side, each
// with a window of calls, on bridges with one, two and four readers of
// connections.
func TestCallsOfOneCallerReachTheAgentInOrder(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(readers, " readers"), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * readers)) // a reader for every two
			n := bridgetest.Start(t)
			const callers, calls = 12, 150
			device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
			var calling sync.WaitGroup
			for c := range callers {
				caller := n.Caller(t, fmt.Sprint("caller-", c))
				calling.Go(func() { callInWindow(t, caller, c, calls) })
			}
			late, last := 0, [callers]int{}
			for range callers * calls {
				call := device.Invocation(t)
				var got struct {
					Params struct{ Caller, N int } `json:"params"`
				}
				if err := json.Unmarshal(call.Params, &got); err != nil || got.Params.N == 0 {
					t.Fatalf("call %s: %v", call.Params, err)
				}
				if got.Params.N != last[got.Params.Caller]+1 {
					late++
				}
				last[got.Params.Caller] = got.Params.N
				answer := call.Answer("lamp-1", time.Now())
				answer.Result = json.RawMessage(`{}`)
				publish(t, device, "aibridge/agent/lamp-1/response", answer.Append(nil))
			}
			calling.Wait()
			if late > 0 {
				t.Errorf("%d of %d calls came out of order", late, callers*calls)
			}
		})
	}
}

// callInWindow makes numbered calls, of which some are under way at a time.
func callInWindow(t *testing.T, caller *bridgetest.Raw, number, calls int) {
	const window = 16
	for i := range calls + window {
		if i >= window {
			if answer := caller.Answer(t); answer.Err != nil {
				t.Errorf("%s: %v", caller.ID, answer.Err)
			}
		}
		if i < calls {
			publish(t, caller, "aibridge/bridge/request", []byte(bridgetest.Request(fmt.Sprintf("%d-%d", number, i), "skill.invoke",
				fmt.Sprintf(`{"skill_id":"lamp","capability_id":"switch","params":{"caller":%d,"n":%d}}`, number, i+1))))
		}
	}
}

// publish publishes with QoS 0, which waits for nobody.
func publish(t *testing.T, from *bridgetest.Raw, topic string, payload []byte) {
	if _, err := from.Publish(t.Context(), &paho.Publish{Topic: topic, Payload: payload}); err != nil {
		t.Errorf("%s cannot publish: %v", from.ID, err)
	}
}
