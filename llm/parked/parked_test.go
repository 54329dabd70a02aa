package parked_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// waits has carol ask, and returns the task that waits.
func (w *world) waits(t *testing.T) (*parked.Record, approval.Approval) {
	t.Helper()
	turn, place, err := w.ask(carol)
	if err != nil || !turn.Parked || turn.Answer.Finish.Reason != "waiting" || place.Waiting() == nil {
		t.Fatalf("it does not wait: %+v, %v", turn, err)
	}
	a := w.asked()
	if r := w.task(); r.State != parked.Waiting || r.Approval != a.ID || a.Task != string(r.ID) || place.Waiting().Task != r.ID || place.Waiting().Approval != a.ID {
		t.Fatalf("the task is %+v, the approval %+v, told %+v", r, a, place.Waiting())
	}
	return w.task(), a
}

func TestTheModelIsToldWhatBecameOfItsQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		settle func(t *testing.T, w *world, a approval.Approval)
		want   string
		rings  int
	}{
		"approved": {func(t *testing.T, w *world, a approval.Approval) {
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Error(err)
			}
		}, "I heard rung", 1},
		"denied": {func(t *testing.T, w *world, a approval.Approval) {
			if err := w.decide(alice, a, "deny", "it is late"); err != nil {
				t.Error(err)
			}
		}, "I heard Error: alice denied the call: it is late", 0},
		"withdrawn": {func(t *testing.T, w *world, a approval.Approval) {
			if err := w.desk.Withdraw(t.Context(), a.ID, "no longer wanted"); err != nil {
				t.Error(err)
			}
		}, "I heard Error: the question whether the call may run was withdrawn: no longer wanted", 0},
		"policy forbids it now": {func(t *testing.T, w *world, a approval.Approval) {
			w.rules.mu.Lock()
			w.rules.forbid = true
			w.rules.mu.Unlock()
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Error(err)
			}
		}, "I heard Error: models may not call bell.ring any more: policy forbids it", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, a := w.waits(t)
			w.restart()
			test.settle(t, w, a)
			if said := w.ended(); !strings.HasPrefix(said, test.want) || w.bell.rings != test.rings {
				t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
			}
		})
	}
}

// Every write is on the disk before it counts, and takes a good part of what a
// decision costs. Approved, these are the decision, the approval as used, with which the
// call begins, its outcome and the end of the task. A call that was not made has
// nothing to note of that.
func TestADecisionTakesFewWrites(t *testing.T) {
	for decision, most := range map[string]int{"approve": 4, "deny": 3} {
		w := newWorld(t)
		_, a := w.waits(t)
		before := w.tasks.Writes() + w.approvals.Writes()
		if err := w.decide(alice, a, decision, ""); err != nil {
			t.Fatal(err)
		}
		w.ended()
		if got := w.tasks.Writes() + w.approvals.Writes() - before; got != most {
			t.Errorf("%s: %d writes", decision, got)
		}
		w.stop()
	}
}

// settable is a clock that tests set. Bridges read it from many goroutines.
type settable struct {
	mu sync.Mutex
	at time.Time
}

func (c *settable) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *settable) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// The clock may have been set, or the bridge been down for a week: what counts is
// what it says now.
func TestAQuestionExpiresByTheClock(t *testing.T) {
	clock := &settable{at: time.Now()}
	w := newWorld(t)
	w.stop()
	w.now = clock.now
	w.begin(&recordstest.Process{})
	_, a := w.waits(t)
	if life := a.Expires - a.AskedAt; life != (7 * 24 * time.Hour).Milliseconds() {
		t.Errorf("it lives for %d ms", life)
	}
	clock.set(clock.now().Add(-time.Hour))
	w.restart()
	if a := w.asked(); a.State != approval.Pending {
		t.Errorf("set back, the clock ended it: %+v", a)
	}
	clock.set(time.UnixMilli(a.Expires))
	w.restart()
	if said := w.ended(); !strings.HasPrefix(said, "I heard Error: nobody approved the call within") || w.bell.rings != 0 {
		t.Errorf("it said %q", said)
	}
	if err := w.decide(alice, a, "approve", ""); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("decided late: %v", err)
	}
}

func TestACallThatHasChangedIsAskedAboutAnew(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"its declaration": {func(w *world) { w.redeclare("Rings all bells of the town.") }, "the tool is declared differently"},
		"whom it reaches": {func(w *world) { w.roster = []string{"north", "east"} }, "it reaches east, too|it does not reach south any more"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.roster = []string{"north", "south"}
			_, a := w.waits(t)
			w.stop()
			test.change(w)
			w.begin(&recordstest.Process{})
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			next := w.asked()
			if next.ID == a.ID || next.Replaces != a.ID || strings.Join(next.Changes, "|") != test.want || next.Task != a.Task || w.bell.rings != 0 {
				t.Fatalf("asked %+v", next)
			}
			if err := w.decide(bob, next, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if said := w.ended(); said != "I heard rung" || w.bell.rings != 1 {
				t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
			}
		})
	}
}

// A call that people have changed is made as they want it, on whichever bridge,
// and the model is told.
func TestAChangedCallIsMadeAsItWasChanged(t *testing.T) {
	w := newWorld(t)
	_, a := w.waits(t)
	if _, err := w.desk.Edit(t.Context(), &commands.Call{Principal: bob}, approval.EditParams{ID: a.ID, Nonce: a.Nonce, Args: json.RawMessage(`{"at":"gate"}`), Reason: "the door is shut"}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if err := w.decide(alice, w.asked(), "approve", ""); err != nil {
		t.Fatal(err)
	}
	if said := w.ended(); said != "I heard bob has changed the arguments to {\"at\":\"gate\"}: the door is shut.\nrung" || w.bell.rings != 1 || w.bell.asked != `{"at":"gate"}` {
		t.Errorf("it said %q, and the bell was rung %d times with %s", said, w.bell.rings, w.bell.asked)
	}
}

// Two people decide and the asker cancels, all at once: one of them counts, and
// everybody sees the same.
func TestOfADecisionAndACancellationOneCounts(t *testing.T) {
	for range 20 {
		w := newWorld(t)
		w.approvals.Yield()
		w.tasks.Yield()
		r, a := w.waits(t)
		var at sync.WaitGroup
		errs := make([]error, 3)
		at.Go(func() { errs[0] = w.decide(alice, a, "approve", "") })
		at.Go(func() { errs[1] = w.decide(bob, a, "deny", "no") })
		at.Go(func() { errs[2] = w.parked.Cancel(context.Background(), r.ID, "never mind") })
		at.Wait()
		said := w.ended()
		if errs[0] == nil && errs[1] == nil {
			t.Fatal("both decided")
		}
		switch {
		case said == "I heard rung":
			if errs[0] != nil || w.bell.rings != 1 || protocol.CodeOf(errs[2]) != protocol.InvalidState {
				t.Errorf("rung %d times: %v", w.bell.rings, errs)
			}
		case strings.HasPrefix(said, "cancelled"):
			if errs[2] != nil || w.bell.rings > 1 {
				t.Errorf("cancelled, and rung %d times: %v", w.bell.rings, errs)
			}
		case strings.Contains(said, "bob denied"):
			if errs[1] != nil || w.bell.rings != 0 {
				t.Errorf("denied, and rung %d times: %v", w.bell.rings, errs)
			}
		default:
			t.Errorf("it said %q", said)
		}
		w.stop()
	}
}

func TestACredentialThatEndsTakesItsTasksWithIt(t *testing.T) {
	for _, decided := range []bool{false, true} {
		w := newWorld(t)
		_, a := w.waits(t)
		w.grants.revoke("carol")
		if decided {
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
		} else {
			w.restart() // who starts looks at all
		}
		if said := w.ended(); said != "failed: 2002 the key was revoked" || w.bell.rings != 0 {
			t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
		}
		eventually.Holds(t, "nobody is asked any more", func() bool {
			r, _, _ := w.approvals.Get(a.ID)
			return r.State == approval.Withdrawn
		})
		w.stop()
	}
}

func TestADamagedTaskFails(t *testing.T) {
	w := newWorld(t)
	r, a := w.waits(t)
	w.stop()
	broken := *r
	broken.Kept = []byte("sealed by another key")
	if _, err := w.tasks.Put(t.Context(), string(r.ID), &broken); err != nil {
		t.Fatal(err)
	}
	w.begin(&recordstest.Process{})
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if said := w.ended(); said != "failed: 5000 the stored state of the task cannot be read any more" || w.bell.rings != 0 {
		t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
	}
}

// A question that is lost is asked again.
func TestALostQuestionIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	_, a := w.waits(t)
	w.stop()
	w.approvals.Lose(a.ID)
	w.begin(&recordstest.Process{})
	if again := w.asked(); again.ID != a.ID || again.Hash != a.Hash {
		t.Errorf("asked %+v", again)
	}
}

// A question that is lost, and cannot be asked again, ends its task.
func TestALostQuestionThatCannotBeReadEndsItsTask(t *testing.T) {
	w := newWorld(t)
	r, a := w.waits(t)
	w.stop()
	w.approvals.Lose(a.ID)
	broken := *r
	broken.Asks = []byte("sealed by another key")
	if _, err := w.tasks.Put(t.Context(), string(r.ID), &broken); err != nil {
		t.Fatal(err)
	}
	w.begin(&recordstest.Process{})
	if said := w.ended(); !strings.HasPrefix(said, "failed: 5000 the approval that the task waits for is lost") || w.bell.rings != 0 {
		t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	for want, change := range map[string]func(*parked.Options, *approval.Options){
		"conversation has more than 100 bytes":       func(p *parked.Options, _ *approval.Options) { p.MaxKept = 100 },
		"your conversations that wait for approvals": func(p *parked.Options, _ *approval.Options) { p.MaxOwnBytes = 2500 },
		"the conversations of the space":             func(p *parked.Options, _ *approval.Options) { p.MaxOpenBytes = 2500 },
		"of your calls wait for an approval already": func(_ *parked.Options, a *approval.Options) { a.MaxOwn = 1 },
		"too many calls of the space":                func(_ *parked.Options, a *approval.Options) { a.MaxOpen = 1 },
	} {
		w := newWorld(t, change)
		for range 5 {
			turn, _, err := w.ask(carol)
			if err != nil {
				t.Fatal(err)
			}
			if turn.Parked {
				continue
			}
			if said := turn.Answer.Text(); !strings.Contains(said, want) || !strings.Contains(said, "3004") {
				t.Errorf("it said %q, want %q", said, want)
			}
			want = ""
		}
		if want != "" {
			t.Errorf("never: %s", want)
		}
	}
}

func TestACallerWaitsAsLongAsItLikes(t *testing.T) {
	w := newWorld(t)
	r, a := w.waits(t)
	if _, ended, err := w.parked.Await(t.Context(), r.ID, time.Now(), nil); ended || err != nil {
		t.Errorf("it has ended: %v", err)
	}
	heard := make(chan string, 16)
	type got struct {
		result json.RawMessage
		ended  bool
		err    error
	}
	done := make(chan got)
	go func() {
		result, ended, err := w.parked.Await(context.Background(), r.ID, time.Now().Add(time.Hour), func(event string, _ any) { heard <- event })
		done <- got{result, ended, err}
	}()
	eventually.Holds(t, "somebody waits", func() bool { return w.parked.Attended(r.ID) })
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if g := <-done; string(g.result) != `"I heard rung"` || !g.ended || g.err != nil {
		t.Errorf("got %s, %v, %v", g.result, g.ended, g.err)
	}
	if first := <-heard; first != "task.running" {
		t.Errorf("heard %s first", first)
	}
}

// A slowTable acknowledges the end of a task once somebody says so. Its tasks have
// a caller who can be told more.
type slowTable struct {
	records.Table[parked.Record]
	acknowledge chan struct{}
}

func (t slowTable) Create(ctx context.Context, key string, r *parked.Record) (uint64, error) {
	r.ReturnTo = &commands.ReturnAddress{Topic: "carol"}
	return t.Table.Create(ctx, key, r)
}

func (t slowTable) Update(ctx context.Context, key string, r *parked.Record, expect uint64) (uint64, error) {
	revision, err := t.Table.Update(ctx, key, r, expect)
	if r.State.Over() {
		<-t.acknowledge
	}
	return revision, err
}

func TestACallerIsToldOfTheEndOnce(t *testing.T) {
	for name, patient := range map[string]bool{"in the answer": true, "after the answer that it waits": false} {
		t.Run(name, func(t *testing.T) {
			acknowledge := make(chan struct{})
			returned := make(chan string, 16)
			w := newWorld(t, func(o *parked.Options, _ *approval.Options) {
				o.Tasks = slowTable{o.Tasks, acknowledge}
				o.Return = func(_ *protocol.Principal, _ *commands.ReturnAddress, e *protocol.Event) { returned <- e.Name }
			})
			r, a := w.waits(t)
			until := time.Now()
			if patient {
				until = until.Add(time.Hour)
			}
			answered := make(chan bool, 1)
			go func() {
				_, ended, _ := w.parked.Await(context.Background(), r.ID, until, nil)
				answered <- ended
			}()
			want := 0
			if patient {
				eventually.Holds(t, "somebody waits", func() bool { return w.parked.Attended(r.ID) })
			} else {
				want = 1
				answered <- <-answered // it is answered before anybody decides
			}
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if ended := <-answered; ended != patient {
				t.Errorf("ended: %v", ended)
			}
			eventually.Holds(t, "it has ended", func() bool { return w.task().State.Over() })
			close(acknowledge)
			w.restart() // once everything is told
			if len(returned) != want {
				t.Errorf("the caller is told %d times apart from the answer", len(returned))
			}
		})
	}
}

// What ends the bridge while it goes on with a task would end the next one, too.
func TestAPanicEndsTheTaskAlone(t *testing.T) {
	w := newWorld(t)
	w.parked.Handle("llm.query", func(context.Context, *parked.Job) (json.RawMessage, error) { panic("oops") })
	_, a := w.waits(t)
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if said := w.ended(); said != "failed: 5000 internal error" {
		t.Errorf("it said %q", said)
	}
}

// The tools of other servers are known only when these are connected again.
func TestAnApprovedCallWaitsForItsTool(t *testing.T) {
	w := newWorld(t)
	_, a := w.waits(t)
	w.stop()
	w.away.Store(2)
	w.begin(&recordstest.Process{})
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if said := w.ended(); said != "I heard rung" || w.bell.rings != 1 {
		t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
	}
}

// A store that is slow has stored a task that its bridge does not see yet. Who waits for
// it waits on, and is not told that there is none.
func TestATaskThatIsNotSeenYetIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.bridge = w.another(&recordstest.Process{}) // which does not look for questions without tasks yet
	r, a := w.waits(t)
	kept := *r
	w.tasks.Lose(string(r.ID))
	if _, ended, err := w.parked.Await(t.Context(), kept.ID, time.Now(), nil); ended || err != nil {
		t.Errorf("not seen yet, it has ended: %v, %v", ended, err)
	}
	told := make(chan error, 1)
	go func() {
		_, _, err := w.parked.Await(context.Background(), kept.ID, time.Now().Add(time.Hour), nil)
		told <- err
	}()
	if _, err := w.tasks.Create(t.Context(), string(kept.ID), &kept); err != nil {
		t.Fatal(err)
	}
	w.elect()
	if err := w.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Errorf("who waited is told %v", err)
	}
}

// A store that is away for a moment, as while its servers elect who leads them, does
// not cost what somebody has agreed to: neither when the call is noted, nor when it
// is claimed.
func TestAnApprovedCallIsMadeWhenItCanBeStored(t *testing.T) {
	for name, away := range map[string]func(w *world){
		"noted": func(w *world) {
			once := sync.OnceFunc(func() { w.tasks.BreakNext(1) })
			w.tasks.OnChange(func(_ string, _, now *parked.Record) {
				if now != nil && now.State == parked.Running {
					once()
				}
			})
		},
		"approval": func(w *world) {
			w.approvals.OnChange(func(_ string, _, now *approval.Record) {
				if now != nil && now.State == approval.Approved {
					w.approvals.BreakNext(1)
				}
			})
		},
		"claimed": func(w *world) { w.unstored.Store(1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, a := w.waits(t)
			away(w)
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if said := w.ended(); said != "I heard rung" || w.bell.rings != 1 {
				t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
			}
		})
	}
}

// Of many questions that are settled at once, as when all of a night expire, some are
// old before their tasks were taken up. They are not forgotten until then: whoever is
// denied is not asked about again.
func TestWhatIsDecidedIsNotForgottenBeforeItsTaskGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *parked.Options, a *approval.Options) { a.MaxOwnKept = 1 })
		for range 3 {
			if _, _, err := w.ask(carol); err != nil {
				t.Fatal(err)
			}
		}
		w.stop()
		w.bridge = w.another(&recordstest.Process{})
		for a := w.pending(); a != nil; a = w.pending() {
			if err := w.decide(alice, *a, "deny", ""); err != nil {
				t.Fatal(err)
			}
		}
		w.stop()
		w.bridge = w.another(&recordstest.Process{})
		synctest.Wait() // what is old is forgotten
		w.elect()
		synctest.Wait()
		for _, r := range w.tasks.All() {
			if r.State != parked.Succeeded {
				t.Errorf("a task is %s", r.State)
			}
		}
		if a := w.pending(); a != nil {
			t.Errorf("somebody is asked again: %+v", a)
		}
	})
}

// Work that can never be noted ends some minutes later, and says why. What comes of
// other tasks is not touched by that.
func TestWorkThatIsAlwaysInVainEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var done atomic.Bool
		w := newWorld(t)
		w.parked.Handle("llm.query", func(context.Context, *parked.Job) (json.RawMessage, error) {
			if tries.Add(1); !done.Load() {
				return nil, protocol.Errorf(protocol.StoreUnavailable, "the budget is out of reach")
			}
			return json.RawMessage(`"done"`), nil
		})
		decided := func(who *protocol.Principal) protocol.TaskID {
			_, place, err := w.ask(who)
			if err != nil {
				t.Fatal(err)
			}
			a, err := w.shown(place.Waiting().Approval)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			return place.Waiting().Task
		}
		id := decided(carol)
		time.Sleep(time.Minute)
		if v, _ := w.parked.Get(id); v.State != parked.Running || tries.Load() < 5 {
			t.Errorf("after a minute and %d tries it has %s", tries.Load(), v.State)
		}
		time.Sleep(10 * time.Minute)
		if said := w.ended(); said != "failed: 5001 the task was gone on with 10 times, and each time something could not be stored; the last time: the budget is out of reach" || tries.Load() != 10 {
			t.Errorf("after %d tries it said %q", tries.Load(), said)
		}
		if v, _ := w.parked.Get(id); v.Failure.Details["reason"] != "attempts" {
			t.Errorf("told %v", v.Failure.Details)
		}

		done.Store(true)
		next := decided(bob)
		time.Sleep(time.Minute)
		if v, _ := w.parked.Get(next); v.State != parked.Succeeded {
			t.Errorf("the next task has %s", v.State)
		}
	})
}

// A call that was let through before a crash is judged again.
func TestPolicyMayForbidACallBetweenItsApprovalAndItsEnd(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.begin(&recordstest.Process{At: "claim"})
	if !w.untilItDies() {
		t.Fatal("there is no claim to be killed at")
	}
	w.stop()
	w.rules.forbid = true
	w.begin(&recordstest.Process{})
	if said := w.ended(); !strings.Contains(said, "(code 4012)") || w.bell.rings != 0 {
		t.Errorf("it said %q, and the bell was rung %d times", said, w.bell.rings)
	}
}

func TestNobodyTakesAllPlaces(t *testing.T) {
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) { p.MaxRunning = 8 })
	hold := make(chan struct{})
	w.parked.Handle("llm.query", func(ctx context.Context, job *parked.Job) (json.RawMessage, error) {
		if job.Principal.ID == carol.ID {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		return json.RawMessage(`"done"`), nil
	})
	for range 10 {
		if _, _, err := w.ask(carol); err != nil {
			t.Fatal(err)
		}
	}
	_, place, err := w.ask(bob)
	if err != nil {
		t.Fatal(err)
	}
	var last approval.Approval
	for _, r := range w.approvals.All() {
		a, err := w.desk.Get(t.Context(), &commands.Call{Principal: alice}, approval.GetParams{ID: r.ID})
		if err != nil {
			t.Fatal(err)
		}
		if r.Requester == bob.ID {
			last = a
		} else if err := w.decide(alice, a, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.decide(alice, last, "approve", ""); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "bob's task has ended", func() bool {
		v, ok := w.parked.Get(place.Waiting().Task)
		return ok && v.State.Over()
	})
	close(hold)
	eventually.Holds(t, "all have ended", func() bool {
		for _, r := range w.tasks.All() {
			if !r.State.Over() {
				return false
			}
		}
		return true
	})
}

func TestNobodyHasTheEndsOfOthersForgotten(t *testing.T) {
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) { p.MaxEnded, p.MaxOwnEnded = 5, 3 })
	ids := make(map[string][]protocol.TaskID)
	for _, who := range []*protocol.Principal{bob, carol, carol, carol, carol, carol, carol} {
		_, place, err := w.ask(who)
		if err != nil {
			t.Fatal(err)
		}
		id := place.Waiting().Task
		ids[who.ID] = append(ids[who.ID], id)
		if err := w.parked.Cancel(t.Context(), id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	w.restart() // who starts tidies up
	eventually.Holds(t, "carol's oldest are forgotten", func() bool { return w.tasks.Len() == 4 })
	if _, ok := w.parked.Get(ids[bob.ID][0]); !ok {
		t.Error("bob's task is forgotten")
	}
	for i, id := range ids[carol.ID] {
		if _, ok := w.parked.Get(id); ok != (i >= 3) {
			t.Errorf("carol's task %d of 6 is kept: %v", i+1, ok)
		}
	}
}
