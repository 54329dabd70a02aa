package parked_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// TestWhatWaitsIsDoneOnceWhereverTheBridgeIsKilled kills the bridge at every step
// between the proposal of a model and its answer, before the step and after it.
// The next bridge goes on.
func TestWhatWaitsIsDoneOnceWhereverTheBridgeIsKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		steps := 0
		for dies := 1; ; dies++ {
			w := newWorld(t)
			w.stop()
			w.begin(&recordstest.Process{Dies: dies, After: after})
			died := w.untilItDies()
			if !died {
				if w.bell.rings != 1 {
					t.Errorf("without a kill the bell is rung %d times", w.bell.rings)
				}
				break
			}
			steps++
			t.Run(fmt.Sprintf("%d %s %v", dies, w.diedAt(), after), func(t *testing.T) { w.goesOn(t) })
		}
		if steps < 10 { // two records, a decision, a claim, an act and an answer
			t.Errorf("there were only %d steps to be killed at", steps)
		}
	}
}

// TestADeniedCallIsNeverMadeWhereverTheBridgeIsKilled kills the bridge at every step
// of a call that is denied. The model of the next one hears that.
func TestADeniedCallIsNeverMadeWhereverTheBridgeIsKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		for dies := 1; ; dies++ {
			w := newWorld(t)
			w.stop()
			w.begin(&recordstest.Process{Dies: dies, After: after})
			died := w.untilItDiesOf("deny")
			t.Run(fmt.Sprintf("%d %s %v", dies, w.diedAt(), after), func(t *testing.T) {
				w.t = t
				w.restart()
				if w.task() == nil {
					return // nobody was asked
				}
				eventually.Holds(t, "it is over, or somebody is asked again", func() bool { return w.task().State.Over() || w.pending() != nil })
				if a := w.pending(); a != nil {
					if err := w.decide(alice, *a, "deny", ""); err != nil {
						t.Fatal(err)
					}
				}
				if said := w.ended(); said != "I heard Error: alice denied the call (code 2003)" || w.bell.rings != 0 {
					t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
				}
			})
			w.stop()
			if !died {
				break
			}
		}
	}
}

// untilItDies has a model ring the bell, with an approval, and reports whether
// the bridge was killed meanwhile.
func (w *world) untilItDies() bool { return w.untilItDiesOf("approve") }

// untilItDiesOf is untilItDies with any decision.
func (w *world) untilItDiesOf(decision string) bool {
	if turn, _, err := w.ask(carol); err == nil && turn.Parked {
		eventually.Holds(w.t, "somebody is asked, or the bridge is dead", func() bool { return w.isDead() || w.pending() != nil })
		if a := w.pending(); a != nil {
			_ = w.decide(alice, *a, decision, "")
		}
		eventually.Holds(w.t, "the task has ended, or the bridge is dead", func() bool { return w.isDead() || w.task().State.Over() })
	}
	return w.isDead()
}

func (w *world) isDead() bool {
	dead, _ := w.process.Dead()
	return dead
}

// diedAt is the step at which the bridge was killed.
func (w *world) diedAt() string {
	_, at := w.process.Dead()
	return at
}

// goesOn starts the next bridge, and sees how the story ends.
func (w *world) goesOn(t *testing.T) {
	w.t = t
	w.restart()
	w.seesItThrough(t)
}

// seesItThrough agrees to the question, if there is one, and sees how the story
// ends.
func (w *world) seesItThrough(t *testing.T) {
	r := w.task()
	if r == nil { // the caller was told that it failed, and nobody was asked
		if w.bell.rings != 0 || w.approvals.Len() != 0 {
			t.Errorf("nothing is kept, and the bell was rung %d times with %d approvals", w.bell.rings, w.approvals.Len())
		}
		return
	}
	var was approval.State
	eventually.Holds(t, "the task goes on, or somebody is asked", func() bool {
		r = w.task()
		a, _, ok := w.approvals.Get(r.Approval)
		if ok {
			was = a.State
		}
		return r.State.Over() || ok && was == approval.Pending
	})
	if !r.State.Over() {
		if err := w.decide(alice, w.asked(), "approve", ""); err != nil {
			t.Fatal(err)
		}
	}
	switch said := w.ended(); {
	case said == "I heard rung":
		if w.bell.rings != 1 {
			t.Errorf("it was rung %d times", w.bell.rings)
		}
	case strings.Contains(said, "(code 4012)"):
		if w.bell.rings > 1 || w.bell.rings == 0 && !w.bell.unsure {
			t.Errorf("the model heard that the outcome is unknown, and it was rung %d times", w.bell.rings)
		}
	default:
		t.Errorf("it said %q", said)
	}
	if a, _, _ := w.approvals.Get(r.Approval); a == nil || a.State != approval.Used {
		t.Errorf("the approval is %+v", a)
	}
}

// TestAChangedCallIsDoneOnceWhereverTheBridgeIsKilled kills the bridge at every
// step of a call that two people have to agree to, that one of them changes, and
// whose tool is declared differently by the time it is made.
func TestAChangedCallIsDoneOnceWhereverTheBridgeIsKilled(t *testing.T) {
	twice := func(_ *parked.Options, a *approval.Options) { a.Rules = []approval.Rule{{Needs: 2}} }
	for _, after := range []bool{false, true} {
		for dies := 1; ; dies++ {
			w := newWorld(t, twice)
			w.stop()
			w.begin(&recordstest.Process{Dies: dies, After: after})
			died := w.untilItDiesChanged()
			if !died {
				if w.bell.rings != 1 || w.bell.asked != `{"at":"gate"}` {
					t.Errorf("without a kill the bell is rung %d times with %s", w.bell.rings, w.bell.asked)
				}
				break
			}
			t.Run(fmt.Sprintf("%d %s %v", dies, w.diedAt(), after), func(t *testing.T) { w.goesOnChanged(t) })
		}
	}
}

// untilItDiesChanged has a model ring the bell. Its call is changed, agreed to by
// two, declared differently, and agreed to by two again.
func (w *world) untilItDiesChanged() bool {
	if turn, _, err := w.ask(carol); err == nil && turn.Parked {
		w.settleChanged()
	}
	return w.isDead()
}

// settleChanged brings the task to its end, as far as the bridge lives: whoever is
// asked about the call as the model wants it changes it, and its tool changes when
// it is agreed to for the first time.
func (w *world) settleChanged() {
	over := func() bool { r := w.task(); return r != nil && r.State.Over() }
	for !w.isDead() && !over() {
		var a *approval.Approval
		eventually.Holds(w.t, "somebody is asked, it is over, or the bridge is dead", func() bool {
			a = w.pending()
			return a != nil || over() || w.isDead()
		})
		if a == nil {
			continue
		}
		if string(a.Args) != `{"at":"gate"}` {
			_, _ = w.desk.Edit(context.Background(), &commands.Call{Principal: dora}, approval.EditParams{ID: a.ID, Nonce: a.Nonce, Args: json.RawMessage(`{"at":"gate"}`)})
			continue
		}
		for _, who := range []*protocol.Principal{alice, bob} {
			if who == bob {
				w.redeclare("Rings the bell, and the one of the neighbours.")
			}
			_ = w.decide(who, *a, "approve", "")
		}
	}
}

// goesOnChanged starts the next bridge, and sees how the story ends.
func (w *world) goesOnChanged(t *testing.T) {
	w.t = t
	w.restart()
	if w.task() == nil {
		if w.bell.rings != 0 || w.approvals.Len() != 0 {
			t.Errorf("nothing is kept, and the bell was rung %d times with %d approvals", w.bell.rings, w.approvals.Len())
		}
		return
	}
	w.settleChanged()
	switch said := w.ended(); {
	case strings.HasSuffix(said, "rung"):
		if w.bell.rings != 1 || w.bell.asked != `{"at":"gate"}` {
			t.Errorf("it was rung %d times with %s", w.bell.rings, w.bell.asked)
		}
	case strings.Contains(said, "(code 4012)"):
		if w.bell.rings > 1 || w.bell.rings == 0 && !w.bell.unsure {
			t.Errorf("the model heard that the outcome is unknown, and it was rung %d times", w.bell.rings)
		}
	default:
		t.Errorf("it said %q", said)
	}
	eventually.Holds(t, "nobody is asked any more", func() bool {
		for _, r := range w.approvals.All() {
			if r.State == approval.Pending || r.State == approval.Approved {
				return false
			}
		}
		return true
	})
}
