package parked_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records"
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

// A late view of tasks shows one as it was, until a write of it is refused.
type late struct {
	records.Table[parked.Record]
	was *atomic.Pointer[version]
}

// A version is a task as it was once.
type version struct {
	record   *parked.Record
	revision uint64
}

func (l late) Get(key string) (*parked.Record, uint64, bool) {
	if was := l.was.Load(); was != nil {
		return was.record, was.revision, true
	}
	return l.Table.Get(key)
}

func (l late) Update(ctx context.Context, key string, v *parked.Record, expect uint64) (uint64, error) {
	revision, err := l.Table.Update(ctx, key, v, expect)
	if err != nil {
		l.was.Store(nil)
	}
	return revision, err
}

// TestATaskOfADeadBridgeIsTakenUpByOneThatSeesItLate has a bridge die that has taken a
// task up. The next one does not know that yet when it takes the task up, too.
func TestATaskOfADeadBridgeIsTakenUpByOneThatSeesItLate(t *testing.T) {
	was := new(atomic.Pointer[version])
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) { p.Tasks = late{p.Tasks, was} })
	if _, _, err := w.ask(carol); err != nil {
		t.Fatal(err)
	}
	asked := w.asked()
	w.stop()
	waits, revision, _ := w.tasks.Get(string(w.task().ID))
	w.bridge = w.another(&recordstest.Process{})
	if err := w.decide(alice, asked, "approve", ""); err != nil {
		t.Fatal(err)
	}
	taken := *waits
	taken.State = parked.Running
	if _, err := w.tasks.Update(t.Context(), string(taken.ID), &taken, revision); err != nil {
		t.Fatal(err)
	}
	was.Store(&version{waits, revision})
	w.elect()
	eventually.Holds(t, "the task ends", func() bool { return w.task().State.Over() })
	if w.bell.rings != 1 {
		t.Errorf("the bell is rung %d times", w.bell.rings)
	}
}
