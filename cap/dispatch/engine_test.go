package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

// A device is a skill with one agent of its own, which may go, die and lose
// its memory. Tests set how it behaves.
type device struct {
	skill      protocol.SkillID
	online     bool
	idempotent bool
	incapable  bool
	naive      bool      // does not know what a recall is
	born       time.Time // since when it remembers
	runs       int       // how often the capability was run
	ran        map[string]int
	known      map[string]ask.Notice
	last       *ask.Durable
	// answer is what running it comes to at once; nil leaves it at work.
	answer    *ask.Notice
	cancelled []string
}

// A field is all the devices, and how to ask them.
type field struct {
	mu      sync.Mutex
	devices map[protocol.SkillID]*device
	open    map[string]*ask.Durable // what somebody listens to
}

func newField() *field {
	return &field{devices: make(map[protocol.SkillID]*device), open: make(map[string]*ask.Durable)}
}

func (f *field) add(skill string, edit ...func(*device)) *device {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &device{skill: protocol.SkillID(skill), online: true, born: time.Now().Add(-time.Hour), known: make(map[string]ask.Notice), ran: make(map[string]int),
		answer: &ask.Notice{Kind: ask.Answered, Data: json.RawMessage(`{"by":"` + skill + `"}`)}}
	for _, e := range edit {
		e(d)
	}
	f.devices[d.skill] = d
	return d
}

func (f *field) Prepare(_ protocol.SpaceID, skill protocol.SkillID, _ protocol.CapabilityID, _ json.RawMessage) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.devices[skill]
	if d.incapable {
		return false, protocol.Errorf(protocol.NotFound, "skill %q cannot do that", skill)
	}
	return d.idempotent, nil
}

func (f *field) Choose(_ protocol.SpaceID, skill protocol.SkillID) (protocol.AgentID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.devices[skill]
	if d == nil || !d.online {
		return "", false
	}
	return protocol.AgentID("agent-" + skill), true
}

func (f *field) of(agent protocol.AgentID) *device {
	return f.devices[protocol.SkillID(strings.TrimPrefix(string(agent), "agent-"))]
}

func (f *field) Reachable(_ protocol.SpaceID, agent protocol.AgentID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.of(agent)
	return d != nil && d.online
}

func (f *field) AskDurably(q *ask.Durable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[q.ID] = q
	d := f.of(q.Agent)
	if !d.online {
		q.Listener.Hear(ask.Notice{Kind: ask.Left})
		return
	}
	d.last = q
	if _, twice := d.known[q.ID]; twice && !d.naive {
		f.tell(q.ID, d.known[q.ID])
		return
	}
	d.runs++
	d.ran[q.ID]++
	if d.answer != nil {
		d.known[q.ID] = *d.answer
		f.tell(q.ID, *d.answer)
	} else {
		d.known[q.ID] = ask.Notice{Kind: ask.Accepted}
		f.tell(q.ID, ask.Notice{Kind: ask.Accepted})
	}
}

// tell passes on what a device says, if anybody listens. f is locked.
func (f *field) tell(id string, h ask.Notice) {
	q := f.open[id]
	if q == nil {
		return
	}
	if h.Kind.Ends() {
		delete(f.open, id)
	}
	q.Listener.Hear(h)
}

func (f *field) Expect(q *ask.Durable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[q.ID] = q
}

func (f *field) Recall(q *ask.Durable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[q.ID] = q
	d := f.of(q.Agent)
	if !d.online {
		q.Listener.Hear(ask.Notice{Kind: ask.Left})
		return
	}
	h, known := d.known[q.ID]
	switch {
	case d.naive:
		q.Listener.Hear(ask.Notice{Kind: ask.Mute})
	case known:
		f.tell(q.ID, h)
	default:
		q.Listener.Hear(ask.Notice{Kind: ask.Forgotten, Since: d.born})
	}
}

func (f *field) Drop(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, id)
}

func (f *field) CancelDurable(q *ask.Durable, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, q.ID)
	d := f.of(q.Agent)
	d.cancelled = append(d.cancelled, reason)
}

// finish has a device answer what it is at work on.
func (f *field) finish(d *device, h ask.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.last == nil {
		return
	}
	d.known[d.last.ID] = h
	if d.online {
		f.tell(d.last.ID, h)
	}
}

// leave takes a device off line, and forget its memory.
func (f *field) leave(d *device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.online = false
	for id, q := range f.open {
		if q.Skill == d.skill {
			f.tell(id, ask.Notice{Kind: ask.Left})
		}
	}
}

func (f *field) reset(d *device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.known, d.born = make(map[string]ask.Notice), time.Now()
}

func (f *field) comeBack(d *device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.online = true
}

// awaitCancelled waits until a device is told to stop, and why.
func (f *field) awaitCancelled(t testing.TB, d *device, reason string) {
	t.Helper()
	for deadline := time.Now().Add(eventually.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		f.mu.Lock()
		told := strings.Join(d.cancelled, ", ")
		f.mu.Unlock()
		if told == reason {
			return
		}
	}
	t.Errorf("%s is not told to stop", d.skill)
}

// A world is tables, devices, and one engine after the other.
type world struct {
	t          checker
	field      *field
	dispatches *recordstest.Memory[Dispatch]
	batches    *recordstest.Memory[Batch]
	engine     *Engine
	options    Options

	mu     sync.Mutex
	events []string
}

// A checker is a test, or a run of a property.
type checker interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newWorld(t checker, edit ...func(*Options)) *world {
	w := &world{t: t, field: newField(), dispatches: recordstest.New[Dispatch](), batches: recordstest.New[Batch]()}
	w.options = Options{Dispatches: w.dispatches, Batches: w.batches, Skills: w.field, Invoker: w.field, Publish: w.publish,
		Pace: time.Millisecond, Watch: 2 * time.Millisecond}
	for _, e := range edit {
		e(&w.options)
	}
	w.boot()
	if c, ok := t.(interface{ Cleanup(func()) }); ok {
		c.Cleanup(w.crash)
	}
	return w
}

func (w *world) boot() {
	w.engine = New(w.options)
	if err := w.engine.Recover(context.Background()); err != nil {
		panic(err)
	}
}

// crash ends the engine as it stands. Nobody listens any more.
func (w *world) crash() {
	_ = w.engine.Close(context.Background())
	w.field.mu.Lock()
	clear(w.field.open)
	w.field.mu.Unlock()
}

func (w *world) publish(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e.Name)
}

func (w *world) dispatch(c Completion, patience time.Duration, skills ...string) protocol.TaskID {
	w.t.Helper()
	o := Order{Command: Command{Space: protocol.DefaultSpace, Cap: "cap", Group: "group", Capability: "do", Params: json.RawMessage(`{}`)},
		Caller: CallerOf(alice), Completion: c, Patience: patience}
	for _, s := range skills {
		candidate := Candidate{Skill: protocol.SkillID(s), Role: "r"}
		if s == "forbidden" {
			candidate.Denied = protocol.Errorf(protocol.PermissionDenied, "not allowed")
		}
		o.Members = append(o.Members, candidate)
	}
	v, err := w.engine.Start(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return v.ID
}

// states are the members' states in the order of the roster.
func (w *world) states(id protocol.TaskID) (Status, string) {
	w.t.Helper()
	v, ok := w.engine.Get(id)
	if !ok {
		w.t.Fatalf("no dispatch %s", id)
	}
	var states []string
	for _, m := range v.Members {
		s := string(m.State)
		if m.Late {
			s += "(late)"
		}
		states = append(states, s)
	}
	return v.Outcome, strings.Join(states, " ")
}

func (w *world) expect(id protocol.TaskID, outcome Status, states string) {
	w.t.Helper()
	var o Status
	var s string
	for deadline := time.Now().Add(eventually.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if o, s = w.states(id); o == outcome && s == states {
			return
		}
	}
	w.t.Fatalf("it is %s: %s, want %s: %s", o, s, outcome, states)
}

func busy(d *device)       { d.answer = nil }
func away(d *device)       { d.online = false }
func idempotent(d *device) { d.idempotent = true }
func naive(d *device)      { d.naive = true }
func failing(d *device) {
	d.answer = &ask.Notice{Kind: ask.Failed, Err: protocol.Errorf(protocol.TargetUnavailable, "broken")}
}
func rejecting(d *device) {
	d.answer = &ask.Notice{Kind: ask.Rejected, Err: protocol.Errorf(protocol.TargetUnavailable, "not now")}
}

var ok = ask.Notice{Kind: ask.Answered, Data: json.RawMessage(`{"late":true}`)}

func TestTheExtensionOfADispatchIsKeptForWhoIsAskedLater(t *testing.T) {
	w := newWorld(t)
	d := w.field.add("a", away)
	v, err := w.engine.Start(t.Context(), Order{
		Command: Command{Space: protocol.DefaultSpace, Cap: "cap", Group: "group", Capability: "do", Params: json.RawMessage(`{}`), Extension: json.RawMessage(`{"acme":7}`)},
		Caller:  CallerOf(alice), Completion: Completion{Policy: All}, Patience: time.Hour, Members: []Candidate{{Skill: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	w.crash()
	w.boot()
	w.field.mu.Lock()
	d.online = true
	w.field.mu.Unlock()
	w.expect(v.ID, Complete, "ok")
	w.field.mu.Lock()
	defer w.field.mu.Unlock()
	if got := string(d.last.Extension); got != `{"acme":7}` {
		t.Errorf("asked with the extension %s", got)
	}
}

func TestEveryMemberIsAskedOnceAndItsAnswerKept(t *testing.T) {
	w := newWorld(t)
	a := w.field.add("a")
	w.field.add("b", failing)
	w.field.add("c", rejecting)
	w.field.add("d", func(d *device) { d.incapable = true })
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a", "b", "c", "d", "forbidden")
	w.expect(id, Partial, "ok failed rejected failed denied")
	v, _ := w.engine.Get(id)
	if string(v.Members[0].Data) != `{"by":"a"}` || v.Members[0].Agent != "agent-a" || v.Members[3].Error.Code != protocol.NotFound ||
		v.Members[4].Error.Code != protocol.PermissionDenied || v.Counts[OK] != 1 || a.runs != 1 {
		t.Errorf("got %+v", v)
	}
	w.crash()
	w.boot()
	w.expect(id, Partial, "ok failed rejected failed denied")
	if w.dispatches.Len() != 1 || a.runs != 1 {
		t.Errorf("%d rosters, a ran %d times", w.dispatches.Len(), a.runs)
	}
}

func TestTheViewTellsWhenAndHowOftenAMemberWasAskedAndWhatItToldLast(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.field.add("a", busy)
		w.field.add("b", away)
		started := time.Now().UnixMilli()
		id := w.dispatch(Completion{Policy: All}, time.Minute, "a", "b")
		w.expect(id, InProgress, "accepted offline")
		w.field.mu.Lock()
		w.field.tell(a.last.ID, ask.Notice{Kind: ask.Progressed, Data: json.RawMessage(`{"percent":60}`)})
		w.field.mu.Unlock()
		w.expect(id, InProgress, "running offline")
		v, _ := w.engine.Get(id)
		if m := v.Members[0]; m.AskedAt < started || m.Tries != 1 || string(m.Told) != `{"percent":60}` {
			t.Errorf("at work: %+v", m)
		}
		if m := v.Members[1]; m.AskedAt != 0 || m.Tries != 0 {
			t.Errorf("away: %+v", m)
		}
		w.field.finish(a, ok)
		w.expect(id, InProgress, "ok offline")
		if counts, found := w.engine.Counts(id); !found || counts[OK] != 1 || counts[Offline] != 1 {
			t.Errorf("counted %v", counts)
		}
		w.crash()
		w.boot()
		v, _ = w.engine.Get(id)
		if m := v.Members[0]; m.AskedAt < started || m.At < m.AskedAt || m.Tries != 1 || m.Told != nil {
			t.Errorf("after a restart: %+v", m)
		}
		if _, found := w.engine.Counts("nobody"); found {
			t.Error("counted the members of a task that is not there")
		}
	})
}

func TestAllDoneIsCompleteAndNoneIsFailed(t *testing.T) {
	w := newWorld(t)
	w.field.add("a")
	w.field.add("b", failing)
	w.expect(w.dispatch(Completion{Policy: All}, time.Minute, "a"), Complete, "ok")
	w.expect(w.dispatch(Completion{Policy: All}, time.Minute, "b"), Fruitless, "failed")
}

func TestWhoIsOfflineIsAskedWhenItComesBack(t *testing.T) {
	w := newWorld(t)
	w.field.add("a")
	b := w.field.add("b", away)
	w.field.add("c", away, func(d *device) { d.incapable = true })
	id := w.dispatch(Completion{Policy: Quorum, N: 2}, time.Minute, "a", "b", "c", "unborn")
	w.expect(id, InProgress, "ok offline offline offline")
	w.field.comeBack(w.field.devices["c"])
	w.expect(id, InProgress, "ok offline failed offline")
	w.crash() // over a restart, too
	w.boot()
	w.field.comeBack(b)
	w.expect(id, Complete, "ok ok failed offline")
	w.field.add("unborn")
	w.expect(id, Complete, "ok ok failed ok(late)")
	if b.runs != 1 {
		t.Errorf("b ran %d times", b.runs)
	}
}

func TestTheDeadlineEndsIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.field.add("a")
		w.field.add("b", away)
		w.field.add("c", busy)
		d := w.field.add("d", busy)
		id := w.dispatch(Completion{Policy: All}, 100*time.Millisecond, "a", "b", "c", "d")
		w.expect(id, InProgress, "ok offline accepted accepted")
		w.field.leave(d)
		w.expect(id, Partial, "ok offline timed_out timed_out")
		v, _ := w.engine.Get(id)
		for i, want := range map[int]protocol.Code{1: protocol.AgentOffline, 2: protocol.TimedOut, 3: protocol.OutcomeUnknown} {
			if v.Members[i].Error == nil || v.Members[i].Error.Code != want {
				t.Errorf("member %d: %+v, want %s", i, v.Members[i].Error, want)
			}
		}
	})
}

func TestLateResultsAreMergedAndMarked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.field.add("a")
		b := w.field.add("b", busy)
		c := w.field.add("c", busy)
		id := w.dispatch(Completion{Policy: Quorum, N: 1}, 100*time.Millisecond, "a", "b", "c")
		w.expect(id, Complete, "ok accepted accepted")
		w.field.finish(b, ok)
		w.expect(id, Complete, "ok ok(late) accepted")
		w.expect(id, Complete, "ok ok(late) timed_out")
		w.crash()
		w.boot()
		w.field.finish(c, ok)
		w.expect(id, Complete, "ok ok(late) ok(late)")
		w.field.finish(c, ask.Notice{Kind: ask.Failed, Err: protocol.Errorf(protocol.Internal, "second answer")})
		w.expect(id, Complete, "ok ok(late) ok(late)")
	})
}

func TestTheFirstAreEnoughAndTheOthersAreTold(t *testing.T) {
	w := newWorld(t)
	a, b := w.field.add("a", busy), w.field.add("b", busy)
	w.field.add("c", away)
	id := w.dispatch(Completion{Policy: First, N: 1}, time.Minute, "a", "b", "c")
	w.expect(id, InProgress, "accepted accepted offline")
	w.field.finish(a, ok)
	w.expect(id, Complete, "ok cancelled cancelled")
	w.field.awaitCancelled(t, b, "enough others have done it")
}

func TestAQuorumOutOfReachEndsIt(t *testing.T) {
	w := newWorld(t)
	w.field.add("a")
	w.field.add("b", failing)
	w.expect(w.dispatch(Completion{Policy: Quorum, N: 2}, time.Minute, "a", "b"), Partial, "ok failed")
}

func TestWithDeadlineWhoeverHasDoneItByThenIsEnough(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.field.add("a")
		w.field.add("b", busy)
		w.expect(w.dispatch(Completion{Policy: Deadline}, 50*time.Millisecond, "a", "b"), Complete, "ok timed_out")
	})
}

func TestCancellingReachesEveryoneAndHoldsAgainstAnswers(t *testing.T) {
	w := newWorld(t)
	a := w.field.add("a", busy)
	w.field.add("b")
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a", "b")
	w.expect(id, InProgress, "accepted ok")
	if err := w.engine.Cancel(t.Context(), id, "no longer needed"); err != nil {
		t.Fatal(err)
	}
	w.expect(id, Called, "cancelled ok")
	w.field.finish(a, ok)
	w.expect(id, Called, "cancelled ok")
	w.field.awaitCancelled(t, a, "no longer needed")
	if err := w.engine.Cancel(t.Context(), id, "again"); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("cancelled twice: %v", err)
	}
}

func TestWhoWasAskedIsAskedForItsResultAndNotToRunAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		done := w.field.add("done", busy)   // has its result by the time it is asked
		atWork := w.field.add("work", busy) // is still at it
		reborn := w.field.add("reborn", busy)
		again := w.field.add("again", busy, idempotent)
		mute := w.field.add("mute", busy, naive)
		gone := w.field.add("gone", busy)
		id := w.dispatch(Completion{Policy: All}, 300*time.Millisecond, "done", "work", "reborn", "again", "mute", "gone")
		w.expect(id, InProgress, "accepted accepted accepted accepted accepted accepted")
		w.crash()
		w.field.finish(done, ok)
		w.field.reset(reborn)
		w.field.reset(again)
		w.field.leave(gone)
		again.answer = &ok
		w.boot()
		w.expect(id, InProgress, "ok accepted failed ok pending pending")
		w.field.finish(atWork, ok)
		w.field.finish(mute, ok) // a plain device answers when it is ready
		w.expect(id, InProgress, "ok ok failed ok ok pending")
		w.expect(id, Partial, "ok ok failed ok ok timed_out")
		v, _ := w.engine.Get(id)
		if v.Members[2].Error.Code != protocol.OutcomeUnknown || v.Members[5].Error.Code != protocol.OutcomeUnknown {
			t.Errorf("got %+v and %+v", v.Members[2].Error, v.Members[5].Error)
		}
		for d, want := range map[*device]int{done: 1, atWork: 1, reborn: 1, again: 2, mute: 1, gone: 1} {
			if d.runs != want {
				t.Errorf("%s ran %d times, want %d", d.skill, d.runs, want)
			}
		}
	})
}

func TestWhoNeverGotTheQuestionIsAskedAnew(t *testing.T) {
	w := newWorld(t)
	a := w.field.add("a", busy)
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a")
	w.expect(id, InProgress, "accepted")
	w.crash()
	w.field.mu.Lock()
	a.known, a.runs, a.answer = make(map[string]ask.Notice), 0, &ok // as if the message had been lost
	w.field.mu.Unlock()
	w.boot()
	w.expect(id, Complete, "ok")
	if a.runs != 1 {
		t.Errorf("a ran %d times", a.runs)
	}
}

func TestAMemberThatAcceptsAndDiesComesBackWithItsResult(t *testing.T) {
	w := newWorld(t)
	a := w.field.add("a", busy)
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a")
	w.expect(id, InProgress, "accepted")
	w.field.leave(a)
	w.field.finish(a, ok) // while nobody hears it
	w.field.comeBack(a)
	w.expect(id, Complete, "ok")
	if a.runs != 1 {
		t.Errorf("a ran %d times", a.runs)
	}
}

func TestNothingIsShownBeforeItIsStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.field.add("a", busy)
		id := w.dispatch(Completion{Policy: All}, time.Minute, "a")
		w.expect(id, InProgress, "accepted")
		w.batches.Break(protocol.Errorf(protocol.StoreUnavailable, "away"))
		w.field.finish(a, ok)
		time.Sleep(time.Second) // in the bubble's time: long enough for it to be shown
		w.expect(id, InProgress, "accepted")
		w.batches.Break(nil)
		w.expect(id, Complete, "ok")
	})
}

func TestAnswersThatComeTogetherAreStoredTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var skills []string
		for i := range 1000 {
			skills = append(skills, fmt.Sprintf("s%d", i))
			w.field.add(skills[i])
		}
		id := w.dispatch(Completion{Policy: All}, time.Minute, skills...)
		w.expect(id, Complete, strings.TrimSpace(strings.Repeat("ok ", 1000)))
		if n := w.batches.Len(); n > 50 {
			t.Errorf("%d batches for 1000 answers", n)
		}
	})
}

func TestTooMuchDataIsLeftOutAndSaid(t *testing.T) {
	w := newWorld(t)
	w.field.add("a", func(d *device) {
		d.answer = &ask.Notice{Kind: ask.Answered, Data: json.RawMessage(`"` + strings.Repeat("x", maxData) + `"`)}
	})
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a")
	w.expect(id, Complete, "ok")
	if v, _ := w.engine.Get(id); !v.Members[0].Dropped || v.Members[0].Data != nil {
		t.Errorf("got %+v", v.Members[0])
	}
}

func TestOldDispatchesAreForgotten(t *testing.T) {
	now := clock.New()
	w := newWorld(t, func(o *Options) { o.Clock = now })
	w.field.add("a")
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a")
	w.expect(id, Complete, "ok")
	for w.engine.find(id) != nil {
		time.Sleep(time.Millisecond)
	}
	now.Advance(25 * time.Hour)
	w.engine.forget()
	if _, there := w.engine.Get(id); there || w.dispatches.Len()+w.batches.Len() != 0 {
		t.Errorf("%d rosters and %d batches are left", w.dispatches.Len(), w.batches.Len())
	}
}

func TestThereIsRoomForSoManyAtOnce(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxRunning = 2 })
	w.field.add("a")
	w.field.add("b", busy)
	w.expect(w.dispatch(Completion{Policy: Quorum, N: 1}, time.Minute, "a", "b"), Complete, "ok accepted") // lingers
	w.dispatch(Completion{Policy: All}, time.Minute, "b")
	w.dispatch(Completion{Policy: All}, time.Minute, "b") // in place of the first
	_, err := w.engine.Start(t.Context(), Order{Caller: CallerOf(alice), Completion: Completion{Policy: All}, Patience: time.Minute,
		Members: []Candidate{{Skill: "b"}}})
	if protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("a third: %v", err)
	}
}

func TestDispatchesOfOneKeepNobodyElseOut(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxRunning = 16 })
	w.field.add("b", busy)
	start := func(id string) error {
		who := &protocol.Principal{Kind: protocol.KindOperator, ID: id, Space: protocol.DefaultSpace}
		_, err := w.engine.Start(t.Context(), Order{Caller: CallerOf(who), Completion: Completion{Policy: All}, Patience: time.Minute,
			Members: []Candidate{{Skill: "b"}}})
		return err
	}
	for range 4 { // a quarter
		if err := start("greedy"); err != nil {
			t.Fatal(err)
		}
	}
	if err := start("greedy"); protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("a fifth: %v", err)
	}
	if err := start("modest"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

func TestTheRemainsOfARemovedDispatchAreRemoved(t *testing.T) {
	w := newWorld(t)
	w.field.add("a")
	id := w.dispatch(Completion{Policy: All}, time.Minute, "a")
	w.expect(id, Complete, "ok")
	w.dispatches.Lose(string(id)) // and the process died
	w.engine.forget()
	if w.batches.Len() != 0 {
		t.Errorf("%d batches are left", w.batches.Len())
	}
}
