package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/protocol/selector"
	"github.com/aibridge/aibridge/registry/ask"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

// A field is a fleet of devices that answer at once, as behave says.
type field struct {
	mu      sync.Mutex
	devices map[protocol.AgentID]bool // registered, and whether it is there
	asked   map[string]int            // by invocation
	by      map[protocol.AgentID]int  // invocations of an agent
	open    map[string]*ask.Durable   // that nobody has answered
	behave  func(agent protocol.AgentID, attempt int) ask.Notice
	silent  bool // nobody answers
}

func newField(n int) *field {
	f := &field{devices: make(map[protocol.AgentID]bool), asked: make(map[string]int), by: make(map[protocol.AgentID]int), open: make(map[string]*ask.Durable),
		behave: func(protocol.AgentID, int) ask.Notice { return answered }}
	for i := range n {
		f.devices[device(i)] = true
	}
	return f
}

func device(i int) protocol.AgentID { return protocol.AgentID(fmt.Sprintf("device-%06d", i)) }

var (
	answered = ask.Notice{Kind: ask.Answered, Data: json.RawMessage(`{"done":true}`)}
	broken   = ask.Notice{Kind: ask.Failed, Err: protocol.Errorf(protocol.TargetUnavailable, "flash failed")}
	refused  = ask.Notice{Kind: ask.Rejected, Err: protocol.Errorf(protocol.TargetUnavailable, "not now")}
)

// fails reports whether a device is one of so many percent.
func fails(agent protocol.AgentID, percent uint32) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent))
	return h.Sum32()%100 < percent
}

func (f *field) Select(protocol.SpaceID, *selector.Selector, protocol.CapabilityID) iter.Seq2[protocol.AgentID, protocol.SkillID] {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]protocol.AgentID, 0, len(f.devices))
	for id := range f.devices {
		ids = append(ids, id)
	}
	return func(yield func(protocol.AgentID, protocol.SkillID) bool) {
		for _, id := range ids {
			if !yield(id, "update") {
				return
			}
		}
	}
}

func (f *field) Serves(_ protocol.SpaceID, agent protocol.AgentID, _ protocol.SkillID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.devices[agent]
	return ok
}

func (f *field) Reachable(_ protocol.SpaceID, agent protocol.AgentID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.devices[agent]
}

func (f *field) Choose(_ protocol.SpaceID, skill protocol.SkillID) (protocol.AgentID, bool) {
	return protocol.AgentID(skill), f.Reachable("", protocol.AgentID(skill))
}

func (f *field) Prepare(protocol.SpaceID, protocol.SkillID, protocol.CapabilityID, json.RawMessage) (bool, error) {
	return false, nil
}

func (f *field) AskDurably(q *ask.Durable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[q.ID]++
	f.by[q.Agent]++
	if f.silent {
		f.open[q.ID] = q
		q.Listener.Hear(ask.Notice{Kind: ask.Accepted})
		return
	}
	q.Listener.Hear(f.behave(q.Agent, f.by[q.Agent]))
}

// answer has all devices answer that have not yet.
func (f *field) answer(n ask.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, q := range f.open {
		delete(f.open, id)
		q.Listener.Hear(n)
	}
}

// Recall answers as the agent that was asked would.
func (f *field) Recall(q *ask.Durable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.asked[q.ID] == 0:
		q.Listener.Hear(ask.Notice{Kind: ask.Forgotten, Since: time.Now().Add(-time.Hour)})
	case f.silent:
		f.open[q.ID] = q
		q.Listener.Hear(ask.Notice{Kind: ask.Accepted})
	default:
		q.Listener.Hear(f.behave(q.Agent, f.by[q.Agent]))
	}
}

func (f *field) Expect(q *ask.Durable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		f.open[q.ID] = q
	}
}

func (f *field) Drop(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, id)
}

func (f *field) CancelDurable(q *ask.Durable, _ string) { f.Drop(q.ID) }

// total is the number of invocations, and whether none was sent twice.
func (f *field) total() (n int, once bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	once = true
	for _, times := range f.asked {
		n += times
		once = once && times == 1
	}
	return n, once
}

func (f *field) change(edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
}

// people approve of canaries.
type people struct {
	mu     sync.Mutex
	asked  []string
	answer Answer
}

func (p *people) Ask(_ context.Context, q Question) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.asked, q.ID) {
		p.asked = append(p.asked, q.ID)
	}
	return nil
}

func (p *people) Answer(string) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer
}

func (p *people) Passed(context.Context, string) error { return nil }

func (p *people) Withdraw(context.Context, string, string) error { return nil }

// authority judges the one credential that there is.
type authority struct {
	mu    sync.Mutex
	why   error // it counts no more, nil if it does
	heeds map[*func(error)]bool
}

// Principal implements [grant.Authority].
func (a *authority) Principal(g grant.Grant) (*protocol.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return grant.Original(g), a.why
}

// OnEnd implements [grant.Authority].
func (a *authority) OnEnd(_ grant.Grant, f func(error)) (stop func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why != nil {
		go f(a.why)
		return func() bool { return false }
	}
	if a.heeds == nil {
		a.heeds = make(map[*func(error)]bool)
	}
	a.heeds[&f] = true
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		waited := a.heeds[&f]
		delete(a.heeds, &f)
		return waited
	}
}

// end ends the credential.
func (a *authority) end(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = why
	for f := range a.heeds {
		go (*f)(why)
	}
	clear(a.heeds)
}

// A world is tables, a fleet, and one pair of engines after the other.
type world struct {
	t          testing.TB
	field      *field
	people     *people
	authority  *authority
	rollouts   records.Table[Rollout]
	parts      records.Table[Part]
	dispatches records.Table[dispatch.Dispatch]
	batches    records.Table[dispatch.Batch]
	waves      *dispatch.Engine
	engine     *Engine
	edit       func(*Options)
	open       func() (load func()) // replaces the tables by those of a store, nil for tables in memory

	dead chan struct{} // closed by the last write, see dieAfter

	mu     sync.Mutex
	events []string
	clock  *clock.Clock
}

func newWorld(t testing.TB, devices int) *world {
	w := &world{t: t, field: newField(devices), people: &people{}, authority: &authority{}, clock: clock.New(),
		rollouts: recordstest.New[Rollout](), parts: recordstest.New[Part](), dispatches: recordstest.New[dispatch.Dispatch](), batches: recordstest.New[dispatch.Batch]()}
	t.Cleanup(func() { w.crash() })
	return w
}

func (w *world) now() time.Time { return w.clock.Now() }

// later lets time pass.
func (w *world) later(d time.Duration) { w.clock.Advance(d) }

func (w *world) boot() *world {
	load := func() {}
	if w.open != nil {
		load = w.open()
	}
	w.waves = dispatch.New(dispatch.Options{Dispatches: w.dispatches, Batches: w.batches, Skills: w.field, Invoker: w.field, Grants: w.authority, Clock: w.clock, Pace: time.Millisecond, Watch: 2 * time.Millisecond})
	o := Options{Rollouts: w.rollouts, Parts: w.parts, Skills: w.field, Waves: w.waves, Approver: w.people, Grants: w.authority, Clock: w.clock, Look: 10 * time.Millisecond,
		Publish: func(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e.Name)
		}}
	if w.edit != nil {
		w.edit(&o)
	}
	w.engine = New(o)
	load()
	if err := w.waves.Recover(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.engine.Recover(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

// crash ends the engines as they stand.
func (w *world) crash() {
	if w.engine == nil {
		return
	}
	_ = w.engine.Close(context.Background())
	_ = w.waves.Close(context.Background())
	if m, ok := w.rollouts.(*recordstest.Memory[Rollout]); ok {
		m.Restart()
	}
	w.engine = nil
}

// start starts a rollout to all devices.
func (w *world) start(p Plan) protocol.TaskID {
	w.t.Helper()
	return w.startFor(p, time.Hour)
}

// startFor starts a rollout to all devices, which have so long to answer.
func (w *world) startFor(p Plan, patience time.Duration) protocol.TaskID {
	w.t.Helper()
	if err := p.Complete(w.now()); err != nil {
		w.t.Fatal(err)
	}
	o := Order{Command: dispatch.Command{Space: protocol.DefaultSpace, Cap: "cap", Group: "group", Capability: "update", Params: json.RawMessage(`{}`)}, Selector: "agent.id",
		Caller: dispatch.CallerOf(alice), Plan: p, Patience: patience}
	for i := range len(w.field.devices) {
		o.Members = append(o.Members, Member{Skill: "update", Agent: device(i), State: Queued})
	}
	r, err := w.engine.Start(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.ID
}

// expect waits until a rollout has a status, and counts if they are not "". A
// fleet takes as long as it takes: the wait begins anew with every step of it.
func (w *world) expect(id protocol.TaskID, s Status, counts string) View {
	w.t.Helper()
	var v View
	for reached := false; !reached; {
		before := v.Counts
		eventually.Holds(w.t, fmt.Sprintf("it is %s: %s", s, counts), func() bool {
			v, _ = w.engine.Get(id)
			reached = v.Rollout != nil && v.Status == s && (counts == "" || inWords(v.Counts) == counts) && v.ended() == s.over()
			return reached || v.Counts.ended() > before.ended()
		}, &v.Counts)
	}
	return v
}

// heard reports whether an event was told, which happens right after what it tells
// of is stored.
func (w *world) heard(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.events, event)
}

// inWords is the counts in words.
func inWords(c Counts) string {
	var words []string
	for _, s := range []State{Queued, InProgress, Succeeded, Failed, Rejected, TimedOut, Removed, Cancelled} {
		if n := *c.of(s); n != 0 {
			words = append(words, fmt.Sprintf("%s %d", s, n))
		}
	}
	return strings.Join(words, ", ")
}

// dieAfter lets so many writes succeed, and then none.
func (w *world) dieAfter(writes int) {
	var mu sync.Mutex
	tables := []interface{ Break(error) }{
		w.rollouts.(*recordstest.Memory[Rollout]), w.parts.(*recordstest.Memory[Part]),
		w.dispatches.(*recordstest.Memory[dispatch.Dispatch]), w.batches.(*recordstest.Memory[dispatch.Batch]),
	}
	w.dead = make(chan struct{})
	end := func() {
		for _, table := range tables {
			table.Break(protocol.Errorf(protocol.StoreUnavailable, "the process is dead"))
		}
		close(w.dead)
	}
	if writes == 0 {
		end()
		return
	}
	written := func() {
		mu.Lock()
		defer mu.Unlock()
		if writes--; writes == 0 {
			end()
		}
	}
	w.rollouts.OnChange(func(string, *Rollout, *Rollout) { written() })
	w.parts.OnChange(func(string, *Part, *Part) { written() })
	w.dispatches.OnChange(func(string, *dispatch.Dispatch, *dispatch.Dispatch) { written() })
	w.batches.OnChange(func(string, *dispatch.Batch, *dispatch.Batch) { written() })
}

// awaitDeath waits for the last write, and has the tables work for the next
// process.
func (w *world) awaitDeath() {
	<-w.dead
	w.crash()
	for _, table := range []interface {
		Break(error)
		Restart()
	}{
		w.rollouts.(*recordstest.Memory[Rollout]), w.parts.(*recordstest.Memory[Part]),
		w.dispatches.(*recordstest.Memory[dispatch.Dispatch]), w.batches.(*recordstest.Memory[dispatch.Batch]),
	} {
		table.Break(nil)
		table.Restart()
	}
}
