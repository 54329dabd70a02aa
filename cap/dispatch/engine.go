package dispatch

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Options configure an [Engine]. Tables, Skills and Asker are needed; other zero
// fields mean the defaults.
type Options struct {
	Dispatches records.Table[Dispatch]
	Batches    records.Table[Batch]
	Skills     Skills
	Invoker    Invoker
	// MayAsk returns the reason why the caller of a dispatch may not ask a
	// member at this moment. The engine consults it before it asks a member
	// later than at the start, or again. It does not block. Nil permits all.
	MayAsk func(d *Dispatch, skill protocol.SkillID) error
	// Grants judges the callers' credentials. Nil: they hold for ever.
	Grants grant.Authority
	// Publish sends an event of a dispatch on its task's topic.
	Publish  func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	BridgeID string
	// Owner names this process among those that have dispatches at the same time,
	// "" if it is the only one. Orphaned returns a function that reports whether an
	// owner has ended, of those that records named before the call, so that this
	// one goes on in its place; nil: all have.
	Owner    string
	Orphaned func(ctx context.Context) (func(owner string) bool, error)

	MaxRunning int           // dispatches at once, default 1000
	LateFor    time.Duration // how long after its deadline answers are taken, default 5 min
	KeepFor    time.Duration // how long after its end a dispatch can be looked at, default 24 h
	Pace       time.Duration // at least between two batches of one dispatch, default 5 ms
	Watch      time.Duration // between two checks for members that came back, default 250 ms

	Log   *slog.Logger
	Clock *clock.Clock // default: a new one
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, fallback time.Duration) {
		if *d == 0 {
			*d = fallback
		}
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = 1000
	}
	def(&o.LateFor, 5*time.Minute)
	def(&o.KeepFor, 24*time.Hour)
	def(&o.Pace, 5*time.Millisecond)
	def(&o.Watch, 250*time.Millisecond)
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, protocol.TaskID, *protocol.Event) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Orphaned == nil {
		o.Orphaned = func(context.Context) (func(string) bool, error) { return func(string) bool { return true }, nil }
	}
	if o.Clock == nil {
		o.Clock = clock.New()
	}
}

// An Engine runs dispatches.
type Engine struct {
	opts Options
	ctx  context.Context // ends when the engine closes
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	runs   map[protocol.TaskID]*run
	ends   map[protocol.TaskID]*End // of those that have ended
}

// New makes an engine. Start it with [Engine.Recover].
func New(o Options) *Engine {
	o.setDefaults()
	e := &Engine{opts: o, runs: make(map[protocol.TaskID]*run), ends: make(map[protocol.TaskID]*End)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// Recover resumes the dispatches of owners that have ended, such as earlier
// processes. From then on the engine watches for members that come back, and
// forgets old dispatches. It is called once, when the tables are loaded.
func (e *Engine) Recover(ctx context.Context) error {
	err := e.TakeOver(ctx)
	e.wg.Go(e.watch)
	return err
}

// TakeOver resumes the dispatches of owners that have ended, and those of this one
// that no run carries out: the store kept them without confirming it.
func (e *Engine) TakeOver(ctx context.Context) error {
	unfinished := e.unfinished()
	if len(unfinished) == 0 {
		return nil
	}
	orphaned, err := e.opts.Orphaned(ctx)
	if err != nil {
		return err
	}
	var taken []*run
	e.mu.Lock()
	for _, r := range unfinished {
		if !e.closed && e.runs[r.d.ID] == nil && (r.d.Owner == e.opts.Owner || orphaned(r.d.Owner)) {
			e.runs[r.d.ID] = r
			e.wg.Add(1)
			taken = append(taken, r)
		}
	}
	e.mu.Unlock()
	for _, r := range taken {
		r.resume() // before any member can answer
	}
	for _, r := range taken {
		go func() {
			defer e.wg.Done()
			r.work()
		}()
	}
	return nil
}

// unfinished are the dispatches that are not over and that no run here carries out.
func (e *Engine) unfinished() []*run {
	var all []*run
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.opts.Dispatches.All() {
		if e.runs[d.ID] != nil || e.ends[d.ID] != nil {
			continue
		}
		r := e.replay(d)
		if r.end != nil {
			e.ends[d.ID] = r.end
		}
		if !r.over() {
			all = append(all, r)
		}
	}
	return all
}

// Close stops without changing anything: a later process goes on.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stop()
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An Order is a dispatch to be started.
type Order struct {
	Command

	ID         protocol.TaskID // a new one if it is ""
	Rollout    protocol.TaskID // that it is a wave of; that keeps it until [Engine.Discard]
	Caller     Caller
	Completion Completion
	Patience   time.Duration // until its deadline
	Members    []Candidate
}

// A Candidate is a member that is to be asked, or is not because it was
// denied.
type Candidate struct {
	Skill  protocol.SkillID
	Agent  protocol.AgentID // that alone may be asked, "" for any of the skill's
	Role   string
	Denied error
}

// Start stores the roster of a dispatch and then asks its members that are
// online.
func (e *Engine) Start(ctx context.Context, o Order) (View, error) {
	if o.ID == "" {
		id, err := uuid.NewV7() // grows with time, which is the order of lists
		if err != nil {
			return View{}, err
		}
		o.ID = protocol.TaskID(id.String())
	}
	now := e.opts.Clock.Now()
	d := &Dispatch{
		ID: o.ID, Rollout: o.Rollout, Command: o.Command, Principal: o.Caller.ID, Home: o.Caller.Space, Caller: &o.Caller, Owner: e.opts.Owner, Completion: o.Completion,
		StartedAt: now.UnixMilli(), Deadline: now.Add(o.Patience).UnixMilli(), Seats: make([]Seat, len(o.Members)),
	}
	for i, c := range o.Members {
		d.Seats[i] = e.seat(d, c)
	}
	r := newRun(e, d, d.fresh())
	if err := e.admit(r); err != nil {
		return View{}, err
	}
	if _, err := e.opts.Dispatches.Create(ctx, string(d.ID), d); err != nil {
		e.leave(r)
		e.wg.Done()
		return View{}, err
	}
	view := r.view(true)
	go func() {
		defer e.wg.Done()
		r.begin()
		r.work()
	}()
	return view, nil
}

// seat prepares a member for being asked.
func (e *Engine) seat(d *Dispatch, c Candidate) Seat {
	s := Seat{Skill: c.Skill, Role: c.Role, Only: c.Agent}
	if d.Rollout != "" && c.Denied == nil { // it was allowed when the rollout began
		c.Denied = e.mayAsk(d, c.Skill)
	}
	if c.Denied != nil {
		s.State, s.Error = Denied, failureOf(c.Denied)
		return s
	}
	agent, reachable := e.choose(d, &s)
	if !reachable {
		return s
	}
	var err error
	if s.Idempotent, err = e.opts.Skills.Prepare(d.Space, c.Skill, d.Capability, d.Params); err != nil {
		s.State, s.Error = Failed, failureOf(err)
		return s
	}
	s.Agent, s.Asked = agent, true
	return s
}

// choose picks the agent that a member's invocation would go to now.
func (e *Engine) choose(d *Dispatch, s *Seat) (agent protocol.AgentID, ok bool) {
	if s.Only != "" {
		return s.Only, e.opts.Skills.Reachable(d.Space, s.Only)
	}
	return e.opts.Skills.Choose(d.Space, s.Skill)
}

// admit takes a run up, if need be in place of one that only waits for late
// answers.
func (e *Engine) admit(r *run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	}
	if e.runs[r.d.ID] != nil {
		return protocol.Errorf(protocol.AlreadyExists, "there is a dispatch %q already", r.d.ID)
	}
	if r.d.Rollout == "" { // rollouts bound their waves
		if !e.hasShare(r.d) {
			return protocol.BusyFor(time.Second, "too many dispatches of the caller's, or of its space, are running")
		}
		if e.runningAlone() >= e.opts.MaxRunning && !e.makeRoom() {
			return protocol.BusyFor(time.Second, "too many dispatches are running")
		}
	}
	e.runs[r.d.ID] = r
	e.wg.Add(1)
	return nil
}

// hasShare reports whether the caller of a dispatch may have another one run.
func (e *Engine) hasShare(d *Dispatch) bool {
	privileged := d.Caller != nil && (slices.Contains(d.Caller.Roles, protocol.RoleAdministrator) || slices.Contains(d.Caller.Roles, protocol.RoleAnonymous))
	most, mostOfSpace := fair.Share(int64(e.opts.MaxRunning), fair.Party{Privileged: privileged})
	var own, ofSpace int64
	for id, other := range e.runs {
		if e.ends[id] != nil || other.d.Rollout != "" || other.d.Home != d.Home {
			continue
		}
		ofSpace++
		if other.d.Principal == d.Principal {
			own++
		}
	}
	return own < most && (privileged || ofSpace < mostOfSpace)
}

// runningAlone is the number of dispatches that are no waves.
func (e *Engine) runningAlone() (n int) {
	for _, r := range e.runs {
		if r.d.Rollout == "" {
			n++
		}
	}
	return n
}

// makeRoom lets go of the oldest dispatch that has ended.
func (e *Engine) makeRoom() bool {
	var oldest *run
	for id, r := range e.runs {
		if e.ends[id] != nil && r.d.Rollout == "" && (oldest == nil || id < oldest.d.ID) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	delete(e.runs, oldest.d.ID)
	oldest.letGo()
	return true
}

func (e *Engine) leave(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs[r.d.ID] == r {
		delete(e.runs, r.d.ID)
	}
}

func (e *Engine) ended(id protocol.TaskID, end *End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends[id] = end
}

func (e *Engine) find(id protocol.TaskID) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
}

func (e *Engine) live() []*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*run, 0, len(e.runs))
	for _, r := range e.runs {
		list = append(list, r)
	}
	return list
}

// watch checks from time to time for members that came back, and forgets old
// dispatches.
func (e *Engine) watch() {
	pace := time.NewTimer(e.opts.Watch)
	defer pace.Stop()
	forget := time.NewTicker(time.Minute)
	defer forget.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-forget.C:
			e.forget()
		case <-pace.C:
			began := time.Now()
			for _, r := range e.live() {
				r.lookAround()
			}
			pace.Reset(max(e.opts.Watch, 10*time.Since(began))) // at most a tenth of a processor
		}
	}
}

// forget removes dispatches that ended too long ago.
func (e *Engine) forget() {
	before := e.opts.Clock.Settled().Add(-e.opts.KeepFor).UnixMilli()
	e.mu.Lock()
	var old []protocol.TaskID
	for id, end := range e.ends {
		if end.At < before && e.runs[id] == nil && !e.isWave(id) {
			old = append(old, id)
		}
	}
	e.mu.Unlock()
	slices.Sort(old)
	for _, id := range old {
		if err := e.remove(id); err != nil {
			e.opts.Log.Warn("an old dispatch is not forgotten", "task", id, "error", err)
			return
		}
	}
	e.removeRemains()
}

// removeRemains deletes batches without a roster: the bridge died when it removed
// a dispatch.
func (e *Engine) removeRemains() {
	for key := range e.opts.Batches.All() {
		id, _, _ := strings.Cut(key, "/")
		if _, _, ok := e.opts.Dispatches.Get(id); ok {
			continue
		}
		if err := e.opts.Batches.Delete(e.ctx, key, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			return
		}
	}
}

// isWave reports whether a dispatch is kept by a rollout.
func (e *Engine) isWave(id protocol.TaskID) bool {
	d, _, ok := e.opts.Dispatches.Get(string(id))
	return ok && d.Rollout != ""
}

// Discard lets go of a dispatch that has ended and removes its records.
func (e *Engine) Discard(ctx context.Context, id protocol.TaskID) error {
	if r := e.find(id); r != nil {
		r.letGo()
		select {
		case <-r.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return e.remove(id)
}

// remove deletes the roster before the batches: batches without a roster mean
// nothing, a roster without batches would be taken for one that just began.
func (e *Engine) remove(id protocol.TaskID) error {
	if err := e.opts.Dispatches.Delete(e.ctx, string(id), 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
		return err
	}
	for n := 0; ; n++ {
		key := batchKey(id, n)
		if _, _, ok := e.opts.Batches.Get(key); !ok {
			break
		}
		if err := e.opts.Batches.Delete(e.ctx, key, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			return err
		}
	}
	e.mu.Lock()
	delete(e.ends, id)
	e.mu.Unlock()
	return nil
}

// replay is a run as the stored records describe it.
func (e *Engine) replay(d *Dispatch) *run {
	r := newRun(e, d, d.fresh())
	for ; ; r.next++ {
		b, _, ok := e.opts.Batches.Get(batchKey(d.ID, r.next))
		if !ok {
			break
		}
		r.commit(b)
	}
	for i := range r.members {
		if r.members[i].asked {
			r.members[i].tries = 1
		}
	}
	return r
}
