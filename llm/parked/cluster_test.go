package parked_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// TestWhatWaitsIsDoneOnceAtAnotherBridge has two bridges share the tables. A model
// asks at the first, somebody decides at the second, and the first is killed at
// every step, before the step and after it. The second is elected and goes on, while
// the rest of the first still tries.
func TestWhatWaitsIsDoneOnceAtAnotherBridge(t *testing.T) {
	for _, after := range []bool{false, true} {
		steps := 0
		for dies := 1; ; dies++ {
			w := newWorld(t)
			w.stop()
			w.begin(&recordstest.Process{Dies: dies, After: after})
			first, second := w.bridge, w.another(&recordstest.Process{})
			died := w.untilItDiesDecidedBy(second)
			if died {
				steps++
				t.Run(fmt.Sprintf("%d %s %v", dies, w.diedAt(), after), func(t *testing.T) {
					w.t, w.bridge = t, second
					second.elect()
					w.seesItThrough(t)
				})
			} else if w.bell.rings != 1 {
				t.Errorf("without a kill the bell is rung %d times", w.bell.rings)
			}
			second.stop()
			first.stop()
			w.bridge = &bridge{stop: func() {}}
			if !died {
				break
			}
		}
		if steps < 8 { // the task, its question, the taking up, the call with its claim, its outcome, the answer
			t.Errorf("there were only %d steps to be killed at", steps)
		}
	}
}

// untilItDiesDecidedBy has a model of the present bridge ring the bell, with an approval
// of another one, and reports whether the present one was killed meanwhile.
func (w *world) untilItDiesDecidedBy(other *bridge) bool {
	if turn, _, err := w.ask(carol); err == nil && turn.Parked {
		eventually.Holds(w.t, "somebody is asked, or the bridge is dead", func() bool { return w.isDead() || other.pending() != nil })
		if a := other.pending(); a != nil {
			_, _ = other.desk.Decide(context.Background(), &commands.Call{Principal: alice}, approval.DecideParams{ID: a.ID, Nonce: a.Nonce, Decision: "approve"})
		}
		eventually.Holds(w.t, "the task has ended, or the bridge is dead", func() bool { return w.isDead() || w.task().State.Over() })
	}
	return w.isDead()
}

// TestATaskThatIsCancelledElsewhereStops has a task cancelled at another bridge than the
// one that makes its call.
func TestATaskThatIsCancelledElsewhereStops(t *testing.T) {
	w := newWorld(t)
	second := w.another(&recordstest.Process{})
	defer second.stop()
	begun, stopped := make(chan struct{}), make(chan struct{})
	w.parked.Handle("llm.query", func(ctx context.Context, _ *parked.Job) (json.RawMessage, error) {
		close(begun)
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	})
	if _, _, err := w.ask(carol); err != nil {
		t.Fatal(err)
	}
	if err := w.decide(alice, w.asked(), "approve", ""); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := second.parked.Cancel(t.Context(), w.task().ID, "enough"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(eventually.Patience):
		t.Fatal("the call goes on")
	}
	if r := w.task(); r.State != parked.Cancelled || r.Failure.Code != protocol.Cancelled || r.Failure.Message != "enough" {
		t.Errorf("it is %s with %+v", r.State, r.Failure)
	}
}
