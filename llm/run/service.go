package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/run/toolhost"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Options configure a [Service]. Asker, Executor, Runs, Packages, Dir and
// Sealer are needed.
type Options struct {
	Asker     Asker
	Executor  Executor
	Catalogue Catalogue // of the bridge's tools, nil for none
	// Retriever chooses when there are more tools than a model is offered;
	// optional, then their words alone decide.
	Retriever tools.Retriever
	Runs      records.Table[Record]
	Packages  records.Table[PackageRecord]
	// Current reports whether the tables show the present state; nil if they
	// always do.
	Current func() bool
	Dir     string // for packages, and for what belongs to each run
	Sealer  Sealer

	// Grants judges who started runs, before every step of theirs. Nil: their
	// grants hold for ever.
	Grants grant.Authority
	// Project is where a run's @project is, by the name its starter gives. One
	// that it gives no name is run-ID. What is done there is judged each time.
	Project func(ctx context.Context, owner grant.Grant, name string) (mount.FS, error)
	// Fetch reads a file of the VFS, of so many bytes at most.
	Fetch func(ctx context.Context, who *protocol.Principal, group, path string, most int64) ([]byte, error)
	// MayActFor says why a caller may not speak for a skill.
	MayActFor func(ctx context.Context, call *commands.Call, skill string) error
	// Publish sends an event of a run on its topic.
	Publish func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	Audit   func(Audited)

	Policy     Policy         // of the system
	Limits     pack.Limits    // of packages
	Quota      toolhost.Quota // of what a run leaves in files
	MaxTurns   int            // without a word of the user, default 20
	MaxRunning int            // runs at once, default 4096
	MaxOwn     int            // of these, of one principal, default 2048
	MaxRuns    int            // that are kept, default 20 000; of one principal a quarter
	MaxPackage int            // packages that are kept of a space, default 1000
	Keep       time.Duration  // how long a run is kept that is at rest, default 30 days

	BridgeID   string
	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() {
	o.MaxTurns = cmp.Or(o.MaxTurns, DefaultMaxTurns)
	o.MaxRunning = cmp.Or(o.MaxRunning, 4096)
	o.MaxOwn = cmp.Or(o.MaxOwn, 2048)
	o.MaxRuns = cmp.Or(o.MaxRuns, 20_000)
	o.MaxPackage = cmp.Or(o.MaxPackage, 1000)
	o.Keep = cmp.Or(o.Keep, 30*24*time.Hour)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, protocol.TaskID, *protocol.Event) {}
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
}

// A Service keeps packages of workflows and the runs of them. Its methods may
// be called at the same time by many goroutines.
type Service struct {
	opts    Options
	library library
	refer   sync.RWMutex    // read while something comes to refer to a package, written while those are removed that nothing refers to
	ctx     context.Context // ends when the service closes
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
	metrics *metrics
	pausing func(ctx context.Context, d time.Duration) error

	recovered atomic.Int64 // when the runs were taken up, Unix nanoseconds

	mu     sync.Mutex
	closed bool
	live   map[string]*live
	own    map[protocol.Party]int // of these
}

// New makes a service. Start it with [Service.Recover].
func New(o Options) *Service {
	o.setDefaults()
	s := &Service{opts: o, live: make(map[string]*live), own: make(map[protocol.Party]int), pausing: pause}
	s.library = library{dir: filepath.Join(o.Dir, "packages"), limits: o.Limits, loaded: make(map[string]*volume)}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.metrics = newMetrics(o.Registerer, s)
	return s
}

// A live run is one whose engine runs, or which is being changed.
type live struct {
	id     string
	owner  protocol.Party
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it is at rest

	mu     sync.Mutex
	record *Record // as it is now
	seq    uint64  // of events
	turn   underWay
}

func (l *live) now() *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record
}

// reserve makes sure that nobody else changes a run meanwhile.
func (s *Service) reserve(r *Record) (*live, error) {
	l := &live{id: r.ID, owner: r.Owner.Party(), record: r, seq: r.Seq, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	case s.live[r.ID] != nil:
		return nil, protocol.Errorf(protocol.InvalidState, "the run is running").With("phase", string(Running))
	case len(s.live) >= s.opts.MaxRunning:
		return nil, protocol.BusyFor(time.Second, "too many runs are running")
	case s.own[l.owner] >= s.opts.MaxOwn:
		return nil, protocol.BusyFor(time.Second, "too many of your runs are running").With("limit", s.opts.MaxOwn)
	}
	s.live[r.ID] = l
	s.own[l.owner]++
	s.wg.Add(1)
	return l, nil
}

// release is the end of reserve.
func (s *Service) release(l *live) {
	l.cancel(nil)
	s.mu.Lock()
	delete(s.live, l.id)
	if s.own[l.owner]--; s.own[l.owner] == 0 {
		delete(s.own, l.owner)
	}
	s.mu.Unlock()
	close(l.done)
	s.wg.Done()
}

func (s *Service) find(id string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// lookup finds a run that a principal may see, as it is now.
func (s *Service) lookup(who *protocol.Principal, id string) (*Record, *live, error) {
	l := s.find(id)
	var r *Record
	if l != nil {
		r = l.now()
	} else {
		r, _, _ = s.opts.Runs.Get(id)
	}
	if r == nil || !r.visibleTo(who) {
		return nil, nil, noRun(id)
	}
	return r, l, nil
}

// Standing is a run as it is now, whoever asks.
func (s *Service) Standing(id string) (Result, bool) {
	if l := s.find(id); l != nil {
		return s.result(l.now()), true
	}
	r, _, ok := s.opts.Runs.Get(id)
	if !ok {
		return Result{}, false
	}
	return s.result(r), true
}

// Mark changes whenever a run comes to rest or goes on. It is "" of one that a
// principal has not begun.
func (s *Service) Mark(who *protocol.Principal, id string) string {
	r, err := s.mine(who, id)
	if err != nil {
		return ""
	}
	return fmt.Sprint(r.Phase, r.Turns, r.Changed.UnixMilli())
}

func noRun(id string) error {
	return protocol.Errorf(protocol.NotFound, "no run %.100q", id).With("run_id", id)
}

// mine is lookup for who is to act with its own rights.
func (s *Service) mine(who *protocol.Principal, id string) (*Record, error) {
	r, _, err := s.lookup(who, id)
	if err == nil && !r.Owner.By(who) {
		err = protocol.Errorf(protocol.PermissionDenied, "only who started a run can go on with it").With("run_id", id)
	}
	return r, err
}

// folder is where what belongs to a run is.
func (s *Service) folder(id string) string { return filepath.Join(s.opts.Dir, "runs", id) }

// stateFolder is where its @state is.
func (s *Service) stateFolder(id string) string { return filepath.Join(s.folder(id), "state") }

// opened is a run with all that its engine needs.
type opened struct {
	workspace *workspace
	diary     *sealedDiary
	story     story
	effects   *effects
}

func (o *opened) close() {
	if o.workspace == nil {
		return
	}
	for _, m := range []mount.FS{o.workspace.mounts.State, o.workspace.mounts.Project} {
		if c, ok := m.(io.Closer); ok {
			_ = c.Close() // its writes are on disk already
		}
	}
}

// open gets a run's things together.
func (s *Service) open(ctx context.Context, r *Record) (*opened, error) {
	o := &opened{effects: newEffects(r.ID)}
	o.story.done = func(int, *toldTurn) {} // they are counted
	var err error
	o.diary, err = openDiary(filepath.Join(s.folder(r.ID), "diary"), "run/"+r.ID, s.opts.Sealer, func(e *entry) {
		o.story.read(e)
		o.effects.read(e)
	})
	if err != nil {
		return nil, err
	}
	if o.workspace, err = s.workspace(ctx, r); err != nil {
		o.close() // as far as it is open
		return nil, err
	}
	return o, nil
}

// workspace opens what a run works on.
func (s *Service) workspace(ctx context.Context, r *Record) (*workspace, error) {
	w := &workspace{mode: r.Mode, system: s.policy(r), named: r.Tools != nil, quota: s.opts.Quota}
	if r.Package != "" {
		p, err := s.library.load(r.Package)
		if err != nil {
			return nil, err
		}
		w.pkg, w.active = p.Package, p.Agent(r.Agent)
		if r.Mode == ModeRun {
			if w.workflow = p.Workflow(r.Workflow); w.workflow == nil {
				return nil, protocol.Errorf(protocol.NotFound, "the package has no workflow %.100q", r.Workflow)
			}
		}
		w.mounts.Pkg = p.files
	}
	state, err := mount.OpenPrivateFolder(s.stateFolder(r.ID))
	if err != nil {
		return nil, err
	}
	w.mounts.State = state
	if s.opts.Project != nil && r.Project != "" {
		if w.mounts.Project, err = s.opts.Project(ctx, r.Owner, r.Project); err != nil {
			return w, err
		}
	}
	return w, nil
}

// policy is what the system allows a run, and what its starter did not take
// away.
func (s *Service) policy(r *Record) Policy {
	p := s.opts.Policy
	if r.Tools != nil {
		p.Tools = common(p.Tools, r.Tools)
	}
	return p
}

// launch has a reserved run go on. Its record is durable when it returns. It
// releases the run, sooner or later.
func (s *Service) launch(ctx context.Context, l *live, o *opened, w word) error {
	r := *l.now()
	said := &wordEntry{Intent: w.intent, Node: o.workspace.node(ctx), Input: w.input}
	if err := o.diary.add(&entry{Word: said}, true); err != nil {
		o.close()
		s.release(l)
		return told(err)
	}
	r.Phase, r.Code, r.Reason, r.Last, r.Changed = Running, "", "", nil, s.opts.Now().UTC()
	if _, err := s.opts.Runs.Put(ctx, r.ID, &r); err != nil {
		o.close()
		s.release(l)
		return err
	}
	l.mu.Lock()
	l.record = &r
	l.mu.Unlock()
	s.tell(l, eventPhase, phaseEvent{Phase: Running})
	go s.carry(l, s.engine(l, o), o, w)
	return nil
}

// engine makes the engine of a run.
func (s *Service) engine(l *live, o *opened) *engine {
	r := l.now()
	kit := &toolkit{
		executor: s.opts.Executor, bridge: s.opts.Catalogue, env: s.environment(r), where: o.workspace.node,
		own:     o.workspace.fileTools(),
		effects: o.effects, diary: o.diary,
		young: s.young, pause: s.pausing,
		record: s.recorder(l.ctx, o.workspace.mounts.State, r),
	}
	e := &engine{
		asker: s.opts.Asker, where: o.workspace, hands: kit, diary: o.diary,
		tell: func(event string, data any) {
			if event == eventTurn {
				s.metrics.turns.Inc()
			}
			s.tell(l, event, data)
		},
		prompt:   prompt{mode: r.Mode, autopilot: r.Autopilot, workflow: r.Workflow},
		stream:   r.Stream,
		limits:   limitsOf(cmp.Or(r.MaxTurns, s.opts.MaxTurns)),
		turns:    len(o.story.turns),
		spent:    o.story.spent,
		now:      s.opts.Now,
		pause:    s.pausing,
		owner:    func() (*protocol.Principal, error) { return s.owner(r) },
		relevant: s.opts.Retriever,
	}
	e.question.Space, e.question.Skill, e.question.Model, e.question.Run = r.Owner.Space, r.Skill, r.Model, r.ID
	if w := o.workspace.workflow; w != nil {
		e.prompt.workflow, e.prompt.graph = cmp.Or(w.ID, w.WorkflowEntry.Workflow), w.WorkflowEntry.Graph
	}
	return e
}

// environment makes what the tools of a run are called in, for its owner as it
// is then.
func (s *Service) environment(r *Record) func() (tools.Environment, error) {
	return func() (tools.Environment, error) {
		who, err := s.owner(r)
		return tools.Environment{Principal: who, Space: r.Owner.Space, Skill: r.Skill, Session: r.ID, TraceID: r.TraceID, Task: r.ID}, err
	}
}

// owner is who started a run, with the rights it has now, or why the run may not
// go on by itself.
func (s *Service) owner(r *Record) (*protocol.Principal, error) {
	who, err := s.opts.Grants.Principal(r.Owner)
	if err != nil {
		return nil, &endedError{err}
	}
	return who, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry brings a run to rest.
func (s *Service) carry(l *live, e *engine, o *opened, w word) {
	defer o.close()
	stop := s.perform(l, e, w)
	if stop.Phase == Running {
		s.release(l)
		return // it goes on when the bridge does
	}
	rest := restEntry{At: s.opts.Now().UTC(), Phase: stop.Phase, Code: stop.Code, Reason: stop.Reason, Message: stop.Message, Questions: stop.Questions}
	if err := o.diary.add(&entry{Rest: &rest}, true); err != nil {
		s.opts.Log.Error("how a run came to rest is not kept in its record", "run", l.id, "error", err)
	}
	s.settle(l, stop, e.turns)
}

// perform runs an engine, whatever happens in it.
func (s *Service) perform(l *live, e *engine, w word) (stop Stop) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("the engine of a run panicked", "run", l.id, "panic", fmt.Sprint(p))
			stop = stopped(Failed, fault.Internal, "internal error")
		}
	}()
	ctx, end := grant.While(l.ctx, s.opts.Grants, l.now().Owner)
	defer end()
	return e.run(ctx, w)
}

// settle stores how a run came to rest, releases it, and tells it: who hears
// of it may have it go on at once.
func (s *Service) settle(l *live, stop Stop, turns int) {
	r := *l.now()
	r.Phase, r.Code, r.Reason, r.Changed, r.Turns = stop.Phase, stop.Code, stop.Reason, s.opts.Now().UTC(), turns
	l.mu.Lock()
	r.Seq = l.seq + 1 // for the event below
	l.mu.Unlock()
	r.Last = s.seal(r.ID, last{Message: stop.Message, Questions: stop.Questions})
	s.keep(&r)
	l.mu.Lock()
	l.record = &r
	l.mu.Unlock()
	s.release(l)
	s.metrics.rested(stop)
	s.tell(l, eventPhase, phaseEvent(stop))
}

const (
	keepTries = 8
	keepTime  = 10 * time.Second
)

// keep stores a record, and tries for a while if the store is away: the run
// would be begun again after a restart.
func (s *Service) keep(r *Record) {
	wait := 100 * time.Millisecond
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), keepTime)
		_, err := s.opts.Runs.Put(ctx, r.ID, r)
		cancel()
		if err == nil {
			return
		}
		if n == keepTries || pause(s.ctx, wait) != nil {
			s.opts.Log.Error("the end of a run is not stored", "run", r.ID, "phase", r.Phase, "error", err)
			return
		}
		wait *= 2
	}
}

// tell publishes an event of a run.
func (s *Service) tell(l *live, event string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		return
	}
	body := append(protocol.AppendString([]byte(`{"run_id":`), l.id), ',')
	body = append(body, raw[1:]...) // every event has fields
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.heard(data, s.opts.Now())
	s.opts.Publish(protocol.Everybody(l.record.Owner.Party().Space), protocol.TaskID(l.id), &protocol.Event{
		Version: protocol.Version, ID: l.id, Timestamp: s.opts.Now().UnixMilli(), Name: event, Seq: l.seq, Data: body,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID, TraceID: l.record.TraceID},
	})
}

// Close stops the engines. Runs under way go on after a restart.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(errClosing)
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
