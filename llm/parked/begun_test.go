package parked_test

import (
	"context"
	"strings"
	"sync"
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

// A bridge that is about to make an approved call has stored nothing yet. Somebody who
// cancels at another bridge in that moment is not told that the call is cancelled and
// finds it made.
func TestACallThatIsCancelledElsewhereIsNotMade(t *testing.T) {
	w := newWorld(t)
	r, a := w.waits(t)
	second := w.another(&recordstest.Process{})
	defer second.stop()
	judged, goOn := make(chan struct{}), make(chan struct{})
	w.rules.whileJudged(sync.OnceFunc(func() {
		close(judged)
		<-goOn
	}))
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	<-judged
	if err := second.parked.Cancel(t.Context(), r.ID, "never mind"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	w.stop() // what was begun has ended
	w.begin(&recordstest.Process{})
	if said := w.ended(); said != "cancelled: 4013 never mind" || w.bell.rings != 0 {
		t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
	}
	if a, _, _ := w.approvals.Get(a.ID); a.State != approval.Withdrawn {
		t.Errorf("the approval is %s", a.State)
	}
}

// A bridge that cancels a task takes the question back and dies. Whoever goes on with the
// task does not take that for an answer to the model, whether it has judged the call by
// then or not.
func TestATaskIsCancelledAlthoughItsCancellerDies(t *testing.T) {
	for name, judges := range map[string]bool{"waits": false, "is judged": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r, a := w.waits(t)
			second := w.another(&recordstest.Process{Dies: 1, After: true})
			defer second.stop()
			judged, goOn := make(chan struct{}), make(chan struct{})
			if judges {
				w.rules.whileJudged(sync.OnceFunc(func() {
					close(judged)
					<-goOn
				}))
				if err := w.decide(alice, a, "approve", ""); err != nil {
					t.Fatal(err)
				}
				<-judged
			}
			if err := second.parked.Cancel(t.Context(), r.ID, "never mind"); err == nil {
				t.Fatal("the bridge that cancels lives")
			}
			close(goOn)
			if said := w.ended(); said != "cancelled: 4013 never mind" || w.bell.rings != 0 {
				t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
			}
		})
	}
}

// A slower table stores the end of a task only when somebody else has.
type slower struct {
	records.Table[parked.Record]
	ended chan struct{}
}

func (s slower) Update(ctx context.Context, key string, r *parked.Record, expect uint64) (uint64, error) {
	if r.State.Over() {
		<-s.ended
	}
	return s.Table.Update(ctx, key, r, expect)
}

// Who cancels a task hears that it is cancelled, also if the bridge that was to go on with
// it has stored that first.
func TestWhoeverStoresItFirstATaskIsCancelled(t *testing.T) {
	bridges, ended := 0, make(chan struct{})
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) {
		if bridges++; bridges == 2 {
			p.Tasks = slower{p.Tasks, ended}
		}
	})
	r, _ := w.waits(t)
	second := w.another(&recordstest.Process{})
	defer second.stop()
	heard := make(chan error, 1)
	go func() { heard <- second.parked.Cancel(t.Context(), r.ID, "never mind") }()
	if said := w.ended(); said != "cancelled: 4013 never mind" {
		t.Errorf("it said %q", said)
	}
	close(ended)
	if err := <-heard; err != nil {
		t.Error(err)
	}
	if err := second.parked.Cancel(t.Context(), r.ID, "again"); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("cancelled again: %v", err)
	}
}

// The record of a task says nothing of its call until that is made; the approval does.
func TestATaskRunsWhileItsCallIsMade(t *testing.T) {
	w := newWorld(t)
	r, a := w.waits(t)
	ringing, goOn := make(chan struct{}), make(chan struct{})
	w.bell.during = func() {
		close(ringing)
		<-goOn
	}
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	<-ringing
	v, _ := w.parked.Get(r.ID)
	for each := range w.parked.All() {
		if v.State != parked.Running || each.State != parked.Running {
			t.Errorf("it is %s, and listed as %s", v.State, each.State)
		}
	}
	close(goOn)
	if said := w.ended(); said != "I heard rung" {
		t.Errorf("it said %q", said)
	}
}

// A bridge of a release that does not know that the use of an approval begins its call
// makes the call of a used approval again, unless that has another hash than the call.
func TestACallThatHasBegunIsAnotherCallToEarlierReleases(t *testing.T) {
	w := newWorld(t)
	_, a := w.waits(t)
	ringing, goOn := make(chan struct{}), make(chan struct{})
	w.bell.during = func() {
		close(ringing)
		<-goOn
	}
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	<-ringing
	stored, _, _ := w.approvals.Get(a.ID)
	if stored.State != approval.Used || stored.Hash == a.Hash {
		t.Errorf("the approval is stored as %s, with the hash %q of the call %q", stored.State, stored.Hash, a.Hash)
	}
	if shown, err := w.shown(a.ID); err != nil || shown.Hash != a.Hash {
		t.Errorf("it is shown with the hash %q: %v", shown.Hash, err)
	}
	list, err := w.desk.List(t.Context(), &commands.Call{Principal: alice}, approval.ListParams{Hash: a.Hash})
	if err != nil || len(list.Approvals) != 1 {
		t.Errorf("by its hash %d are found: %v", len(list.Approvals), err)
	}
	close(goOn)
	if said := w.ended(); said != "I heard rung" {
		t.Errorf("it said %q", said)
	}
}

// A call is claimed under its key, and the claim is remembered for a minute from when it
// was made, however often bridges die that look at it again.
func TestACallIsNotRepeatedAfterItsClaimIsForgotten(t *testing.T) {
	clock := &settable{at: time.Now()}
	w := newWorld(t)
	w.stop()
	w.now = clock.now
	w.begin(&recordstest.Process{At: "act", After: true})
	_, a := w.waits(t)
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the bridge is dead", w.isDead)
	w.stop()
	clock.set(clock.now().Add(40 * time.Second))
	w.begin(&recordstest.Process{Dies: 2, After: true}) // it has taken the task up, and begun the call
	eventually.Holds(t, "the next bridge is dead", w.isDead)
	w.stop()
	clock.set(clock.now().Add(40 * time.Second))
	clear(w.bell.claims)
	w.begin(&recordstest.Process{})
	if said := w.ended(); !strings.Contains(said, "(code 4012)") || w.bell.rings != 1 {
		t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
	}
}
