package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A device is what calls of the command test.ask wait for: whoever has them in
// hand answers them.
type device struct {
	mu    sync.Mutex
	begun []*question
}

type question struct {
	ctx  context.Context
	call *commands.Call
	text string
	done func(text, error)
}

func (d *device) command(async bool) commands.Command {
	spec := commands.Spec{Name: "test.ask", Summary: "Ask.", Effect: commands.Act, Action: "test:ask", Async: async}
	return commands.NewAsync(spec, func(ctx context.Context, call *commands.Call, p text, done func(text, error)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.begun = append(d.begun, &question{ctx, call, p.Text, done})
	})
}

func (d *device) asked() []*question {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*question(nil), d.begun...)
}

func TestACallThatNobodyWaitsForIsAnsweredByWhoeverBringsTheResult(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &device{}
		n := newNode(t, commands.RouterOptions{Workers: 1}, d.command(false), stubborn(time.Hour))
		busy := n.submit("0", "test.stubborn", `{}`, `"timeout":1000`) // takes the only worker
		synctest.Wait()
		before := runtime.NumGoroutine() // some of an earlier test's may still be about to end
		var answers []<-chan *protocol.Response
		for i := range 100 {
			answers = append(answers, n.submit(fmt.Sprint("q", i), "test.ask", fmt.Sprintf(`{"text":"%d"}`, i)))
		}
		if got := runtime.NumGoroutine(); got > before || len(d.asked()) != 100 {
			t.Errorf("%d calls have begun, with %d goroutines more", len(d.asked()), got-before)
		}
		for i, q := range d.asked() {
			q.done(text{q.text + "!"}, nil)
			wantSaid(t, <-answers[i], fmt.Sprintf(`{"text":"%d!"}`, i))
		}
		wantSaid(t, n.call("q7", "test.ask", `{"text":"7"}`), `{"text":"7!"}`) // from memory
		if len(d.asked()) != 100 {
			t.Error("a repeat was run again")
		}
		<-busy
		time.Sleep(time.Hour)
	})
}

func TestOnlyTheFirstWordOfAHandlerCounts(t *testing.T) {
	d := &device{}
	n := newNode(t, commands.RouterOptions{}, d.command(false))
	answer := n.submit("1", "test.ask", `{"text":"x"}`)
	q := d.asked()[0]
	q.done(text{"first"}, nil)
	q.done(text{}, errors.New("second"))
	wantSaid(t, <-answer, `{"text":"first"}`)
	if len(answer) != 0 {
		t.Error("answered twice")
	}
}

func TestErrorsAndPartsOfHandlersThatDoNotWait(t *testing.T) {
	d := &device{}
	n := newNode(t, commands.RouterOptions{}, d.command(false))
	failed := n.submit("1", "test.ask", `{}`)
	d.asked()[0].done(text{"part"}, protocol.Errorf(protocol.AgentOffline, "gone"))
	r := <-failed
	wantSaid(t, r, "3005")
	if string(r.Result) != `{"text":"part"}` {
		t.Errorf("with %s", r.Result)
	}
	strange := n.submit("2", "test.ask", `{}`)
	d.asked()[1].done(text{}, errors.New("no code"))
	wantSaid(t, <-strange, "5000")
}

func TestAPanicOfAHandlerThatDoesNotWaitHurtsNobodyElse(t *testing.T) {
	n := newNode(t, commands.RouterOptions{}, commands.NewAsync(
		commands.Spec{Name: "test.ask", Summary: "Ask.", Effect: commands.Act, Action: "test:ask"},
		func(context.Context, *commands.Call, text, func(text, error)) { panic("oh") }))
	wantSaid(t, n.call("1", "test.ask", `{}`), "5000")
}

func TestTheDeadlineOfACallThatNobodyWaitsFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &device{}
		n := newNode(t, commands.RouterOptions{}, d.command(false))
		began := time.Now()
		answer := n.submit("1", "test.ask", `{}`, `"timeout":1500`)
		q := d.asked()[0]
		told := make(chan time.Duration, 1)
		context.AfterFunc(q.ctx, func() { told <- time.Since(began) })
		wantSaid(t, <-answer, "4007")
		if took := <-told; took != 1500*time.Millisecond || q.ctx.Err() != context.DeadlineExceeded {
			t.Errorf("the handler was told after %v, with %v", took, q.ctx.Err())
		}
		again := n.submit("1", "test.ask", `{}`, `"timeout":9000`) // joins what still runs
		q.done(text{"late"}, nil)
		wantSaid(t, <-again, `{"text":"late"}`)
	})
}

func TestCallsOfManyTimeoutsExpireEachInItsTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &device{}
		n := newNode(t, commands.RouterOptions{}, d.command(false))
		var wrong atomic.Int64
		var all sync.WaitGroup
		for i := range 300 { // more than the lists that are kept when they are empty
			ms := 1000 + 7*(i*37%150)
			all.Go(func() {
				began := time.Now()
				r := n.call(fmt.Sprint(i), "test.ask", `{}`, fmt.Sprintf(`"timeout":%d`, ms))
				if said(r) != "4007" || time.Since(began) != time.Duration(ms)*time.Millisecond {
					wrong.Add(1)
				}
			})
		}
		all.Wait()
		if wrong.Load() != 0 {
			t.Errorf("%d expired at another time", wrong.Load())
		}
		for _, q := range d.asked() {
			q.done(text{}, q.ctx.Err())
		}
	})
}

// queuedClaims are claims that become durable when the test says so.
type queuedClaims struct {
	ledger
	mu      sync.Mutex
	waiting []func(error)
	flushed int
}

func (q *queuedClaims) Enqueue(_ commands.Claim, done func(error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, done)
}

func (q *queuedClaims) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushed++
}

func (q *queuedClaims) settle(err error) {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

func TestNothingBeginsBeforeItsClaimIsDurable(t *testing.T) {
	d, claims := &device{}, &queuedClaims{}
	n := newNode(t, commands.RouterOptions{Claims: claims}, d.command(false))
	var answers []<-chan *protocol.Response
	for i := range 3 {
		in := n.inbound(envelope(fmt.Sprint(i), "test.ask", `{}`))
		in.Batched = i > 0
		answer := make(chan *protocol.Response, 1)
		n.Submit(in, func(r *protocol.Response) { answer <- lasting(r) })
		answers = append(answers, answer)
	}
	if len(d.asked()) != 0 || claims.flushed != 1 {
		t.Fatalf("%d have begun; flushed %d times, the batched ones too early or the other not at all", len(d.asked()), claims.flushed)
	}
	if n.Flush(); claims.flushed != 2 {
		t.Error("the batch is not flushed")
	}
	claims.settle(nil)
	if len(d.asked()) != 3 {
		t.Fatalf("%d of 3 have begun", len(d.asked()))
	}
	for i, q := range d.asked() {
		q.done(text{}, nil)
		wantSaid(t, <-answers[i], `{}`)
	}
}

// TestACallThatIsConfirmedKeepsNoGoroutine has the last question asked when the claim
// is durable, on the goroutine that made it so.
func TestACallThatIsConfirmedKeepsNoGoroutine(t *testing.T) {
	d, claims := &device{}, &queuedClaims{}
	n := newNode(t, commands.RouterOptions{Claims: claims}, d.command(false))
	var asked int
	var changed error
	submit := func() <-chan *protocol.Response {
		in := n.inbound(envelope("1", "test.ask", `{}`))
		in.Confirm = func() error { asked++; return changed }
		answer := make(chan *protocol.Response, 1)
		n.Submit(in, func(r *protocol.Response) { answer <- lasting(r) })
		return answer
	}
	first := submit()
	if asked != 0 || claims.flushed != 1 {
		t.Fatalf("asked %d times before the claim; flushed %d times", asked, claims.flushed)
	}
	changed = protocol.Errorf(protocol.PermissionDenied, "it has changed")
	claims.settle(nil)
	wantSaid(t, <-first, "2003")
	if asked != 1 || len(d.asked()) != 0 {
		t.Fatalf("asked %d times, begun %d times", asked, len(d.asked()))
	}
	changed = nil
	second := submit() // the same request: it was not tried
	claims.settle(nil)
	d.asked()[0].done(text{"now"}, nil)
	wantSaid(t, <-second, `{"text":"now"}`)
}

// TestAPanicOfWhoConfirmsHurtsNobodyElse panics when a claim is durable.
func TestAPanicOfWhoConfirmsHurtsNobodyElse(t *testing.T) {
	d, claims := &device{}, &queuedClaims{}
	n := newNode(t, commands.RouterOptions{Claims: claims}, d.command(false))
	in := n.inbound(envelope("1", "test.ask", `{}`))
	in.Confirm = func() error { panic("oh") }
	answer := make(chan *protocol.Response, 1)
	n.Submit(in, func(r *protocol.Response) { answer <- lasting(r) })
	claims.settle(nil)
	wantSaid(t, <-answer, "5000")
	if len(d.asked()) != 0 {
		t.Error("it runs all the same")
	}
}

func TestACallWhoseClaimFailsDoesNotBeginAndMayBeRepeated(t *testing.T) {
	d, claims := &device{}, &queuedClaims{}
	n := newNode(t, commands.RouterOptions{Claims: claims}, d.command(false))
	first := n.submit("1", "test.ask", `{}`)
	claims.settle(protocol.Errorf(protocol.StoreUnavailable, "disk full"))
	wantSaid(t, <-first, "5001")
	second := n.submit("1", "test.ask", `{}`)
	claims.settle(nil)
	if len(d.asked()) != 1 {
		t.Fatalf("began %d times", len(d.asked()))
	}
	d.asked()[0].done(text{"now"}, nil)
	wantSaid(t, <-second, `{"text":"now"}`)
}

func TestACallWhoseClaimComesTooLateDoesNotBegin(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, claims := &device{}, &queuedClaims{}
		n := newNode(t, commands.RouterOptions{Claims: claims}, d.command(false))
		answer := n.submit("1", "test.ask", `{}`, `"timeout":1000`)
		wantSaid(t, <-answer, "4007")
		claims.settle(nil)
		if len(d.asked()) != 0 {
			t.Error("it began after the caller was told that it had timed out")
		}
	})
}

func TestBatchesAndExtensionsWaitForHandlersThatDoNot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &device{}
		n := newNode(t, commands.RouterOptions{Extensions: commands.Extensions{Processors: []commands.MessageProcessor{passing{}}}}, d.command(false))
		for i, want := range []string{`{"text":"x"}`, `{"text":"y"}`} {
			answer := n.submit(fmt.Sprint(i), "test.ask", `{}`)
			if i == 1 {
				answer = n.submit("batch", "batch.execute", `{"commands":[{"command":"test.ask"}]}`)
			}
			synctest.Wait()
			for _, q := range d.asked()[i:] {
				q.done(text{string(rune('x' + i))}, nil)
			}
			r := <-answer
			if i == 0 {
				wantSaid(t, r, want)
			} else if r.Err != nil {
				t.Error(r.Err)
			}
		}
	})
}

// passing is a processor that changes nothing.
type passing struct{}

func (passing) Process(ctx context.Context, _ *commands.Call, _ json.RawMessage, next commands.Next) (json.RawMessage, error) {
	return next(ctx)
}

func TestATaskIsNotBegunOnTheGoroutineThatBringsTheRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, tasks := &device{}, &slowTasks{}
		n := newNode(t, commands.RouterOptions{Tasks: tasks}, d.command(true))
		began := time.Now()
		answer := n.submit("1", "test.ask", `{"async":true}`)
		if time.Since(began) != 0 {
			t.Error("submitting waited for the task to be begun")
		}
		wantSaid(t, <-answer, `{"task_id":"t1"}`)
		synctest.Wait()
		d.asked()[0].done(text{"done"}, nil)
		synctest.Wait()
		if got := tasks.result.Load(); got == nil || *got != `{"text":"done"}` {
			t.Errorf("the task ended with %v", got)
		}
	})
}

// slowTasks take a second to begin one.
type slowTasks struct{ result atomic.Pointer[string] }

func (s *slowTasks) Start(_ context.Context, _ *commands.Call, run func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error) {
	time.Sleep(time.Second)
	go func() {
		result, _ := run(context.Background())
		said := string(result)
		s.result.Store(&said)
	}()
	return "t1", nil
}

// A tiredWitness has no room for a while.
type tiredWitness struct {
	witness
	until time.Time
}

func (w *tiredWitness) Admit() error {
	if time.Now().Before(w.until) {
		return protocol.BusyFor(time.Second, "behind")
	}
	return nil
}

func TestCallsWaitForTheRoomToBeRecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &device{}
		n := newNode(t, commands.RouterOptions{Auditor: &tiredWitness{until: time.Now().Add(5 * time.Second)}}, d.command(false))
		wantSaid(t, n.call("hasty", "test.ask", `{}`, `"timeout":2000`), "4007")
		patient := n.submit("patient", "test.ask", `{}`, `"timeout":9000`)
		synctest.Wait()
		if len(d.asked()) != 0 {
			t.Fatal("began what could not be recorded")
		}
		time.Sleep(4 * time.Second)
		if len(d.asked()) != 1 {
			t.Fatalf("%d have begun, one has time left", len(d.asked()))
		}
		d.asked()[0].done(text{"at last"}, nil)
		wantSaid(t, <-patient, `{"text":"at last"}`)
	})
}

// A moodyWitness has room whenever it is told to.
type moodyWitness struct {
	witness
	room atomic.Bool
}

func (w *moodyWitness) Admit() error {
	if !w.room.Load() {
		return protocol.BusyFor(time.Second, "behind")
	}
	return nil
}

// TestCallsThatWaitToBeRecordedAreNotOvertaken has room come and go while calls
// come in, some of which end while they wait.
func TestCallsThatWaitToBeRecordedAreNotOvertaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, w := &device{}, &moodyWitness{}
		n := newNode(t, commands.RouterOptions{Auditor: w}, d.command(false))
		submitted, answers := 0, []<-chan *protocol.Response{}
		submit := func() {
			submitted++
			timeout := `"timeout":9000`
			if submitted%5 == 2 {
				timeout = `"timeout":1000`
			}
			answers = append(answers, n.submit(fmt.Sprint(submitted), "test.ask", fmt.Sprintf(`{"text":"%03d"}`, submitted), timeout))
		}
		for range 10 { // what comes while there is no room, and right after there is some
			w.room.Store(false)
			for range 5 {
				submit()
			}
			time.Sleep(25 * time.Millisecond)
			w.room.Store(true)
			submit()
			submit()
			time.Sleep(25 * time.Millisecond)
		}
		w.room.Store(false)
		for range 10 {
			submit()
		}
		time.Sleep(2 * time.Second)
		w.room.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		last := ""
		for _, asked := range d.asked() {
			if asked.text <= last {
				t.Errorf("%s came after %s", asked.text, last)
			}
			last = asked.text
			asked.done(text{"ok"}, nil)
		}
		if got, want := len(d.asked()), submitted-2; got != want {
			t.Errorf("%d of %d calls have begun, all but two had the time", got, submitted)
		}
		for _, answer := range answers {
			<-answer
		}
	})
}

// changing claims are made while something changes that a call is about.
type changingClaims struct{ change func() }

func (c *changingClaims) Claim(context.Context, commands.Claim) error {
	c.change()
	return nil
}
func (*changingClaims) Pending(func(commands.Claim) bool) {}

// TestACallIsConfirmedRightBeforeItRuns has what the call is about change while
// its claim is made.
func TestACallIsConfirmedRightBeforeItRuns(t *testing.T) {
	d, changed := &device{}, false
	claims := &changingClaims{change: func() { changed = true }}
	n := newNode(t, commands.RouterOptions{Claims: claims}, d.command(false))
	in := n.inbound(envelope("1", "test.ask", `{}`))
	in.Confirm = func() error {
		if changed {
			return protocol.Errorf(protocol.PermissionDenied, "it has changed")
		}
		return nil
	}
	wantSaid(t, n.Handle(t.Context(), in), "2003")
	if len(d.asked()) != 0 {
		t.Fatal("it runs all the same")
	}
	claims.change, changed = func() {}, false
	answer := make(chan *protocol.Response, 1)
	n.Submit(in, func(r *protocol.Response) { answer <- lasting(r) }) // the same request: it was not tried
	for deadline := time.Now().Add(eventually.Patience); len(d.asked()) == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the same request does not run")
		}
	}
	d.asked()[0].done(text{"now"}, nil)
	wantSaid(t, <-answer, `{"text":"now"}`)
}
