package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/protocol/selector"
)

// Skills are the agents and skills that can be asked.
type Skills interface {
	// Select yields the agents, each with those of its skills that have a
	// capability, that a selector chooses.
	Select(space protocol.SpaceID, chosen *selector.Selector, capability protocol.CapabilityID) iter.Seq2[protocol.AgentID, protocol.SkillID]
	// Serves reports whether an agent is registered with a skill.
	Serves(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) bool
	// Reachable reports whether an agent can be asked now.
	Reachable(space protocol.SpaceID, agent protocol.AgentID) bool
	// Choose picks the agent that an invocation of a skill would go to now.
	Choose(space protocol.SpaceID, skill protocol.SkillID) (agent protocol.AgentID, ok bool)
}

// Waves carry out the waves of rollouts: a [dispatch.Engine].
type Waves interface {
	Start(ctx context.Context, o dispatch.Order) (dispatch.View, error)
	Get(id protocol.TaskID) (dispatch.View, bool)
	Wait(ctx context.Context, id protocol.TaskID) error
	Cancel(ctx context.Context, id protocol.TaskID, reason string) error
	Discard(ctx context.Context, id protocol.TaskID) error
	All() iter.Seq[dispatch.View]
}

// Options configure an [Engine]. Tables, Skills and Waves are needed; other zero
// fields mean the defaults.
type Options struct {
	Rollouts records.Table[Rollout]
	Parts    records.Table[Part]
	Skills   Skills
	Waves    Waves
	// Approver asks operators to approve canaries. Nil: none is approved.
	Approver Approver
	// Grants judges the callers' credentials. Nil: they hold for ever.
	Grants grant.Authority
	// Publish sends an event of a rollout on its task's topic.
	Publish  func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	BridgeID string
	// Owner and Orphaned are as those of [dispatch.Options].
	Owner    string
	Orphaned func(ctx context.Context) (func(owner string) bool, error)

	MaxRunning int           // rollouts that have not ended, default 100
	MaxOwn     int           // of these, of one principal, default 20
	MaxKept    int           // members of all rollouts that are known, default 500 000
	MaxWaves   int           // of one rollout at once, default 1000
	KeepFor    time.Duration // how long after its end a rollout can be looked at, default 7 days
	Look       time.Duration // at most between two looks at due work, default 10 s

	Log        *slog.Logger
	Clock      *clock.Clock // default: a new one
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() {
	o.MaxRunning = cmp.Or(o.MaxRunning, 100)
	o.MaxOwn = cmp.Or(o.MaxOwn, 20)
	o.MaxKept = cmp.Or(o.MaxKept, 500_000)
	o.MaxWaves = cmp.Or(o.MaxWaves, 1000)
	o.KeepFor = cmp.Or(o.KeepFor, 7*24*time.Hour)
	o.Look = cmp.Or(o.Look, 10*time.Second)
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, protocol.TaskID, *protocol.Event) {}
	}
	if o.Approver == nil {
		o.Approver = nobody{}
	}
	if o.Orphaned == nil {
		o.Orphaned = func(context.Context) (func(string) bool, error) { return func(string) bool { return true }, nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.New()
	}
}

// An Engine runs rollouts.
type Engine struct {
	opts    Options
	ctx     context.Context // ends when the engine closes
	stop    context.CancelFunc
	wg      sync.WaitGroup
	metrics *metrics

	starting sync.Mutex // held while a rollout is admitted and stored

	mu     sync.Mutex
	closed bool
	runs   map[protocol.TaskID]*run
}

// New makes an engine. It follows its table, so it comes before that is loaded;
// [Engine.Recover] comes after, and after the waves were recovered.
func New(o Options) *Engine {
	o.setDefaults()
	e := &Engine{opts: o, runs: make(map[protocol.TaskID]*run)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.metrics = newMetrics(o.Registerer, e)
	o.Rollouts.OnChange(func(id string, _, _ *Rollout) { e.Wake(protocol.TaskID(id)) })
	return e
}

// Wake has a rollout look at its waves and approvals again.
func (e *Engine) Wake(id protocol.TaskID) {
	if r := e.find(id); r != nil {
		r.signal()
	}
}

// Recover goes on with the rollouts of owners that have ended, such as earlier
// processes, and from then on forgets old ones. It is called once.
func (e *Engine) Recover(ctx context.Context) error {
	err := e.TakeOver(ctx)
	e.wg.Go(e.sweep)
	return err
}

// TakeOver goes on with the rollouts of owners that have ended. Their waves are
// taken over before.
func (e *Engine) TakeOver(ctx context.Context) error {
	var left []*Rollout
	for _, r := range e.opts.Rollouts.All() {
		if !r.ended() && e.find(r.ID) == nil {
			left = append(left, r)
		}
	}
	if len(left) == 0 {
		return nil
	}
	orphaned, err := e.opts.Orphaned(ctx)
	if err != nil {
		return err
	}
	for _, r := range left {
		if r.Owner != e.opts.Owner && !orphaned(r.Owner) {
			continue
		}
		if r.Owner == e.opts.Owner && e.opts.Owner != "" && !orphaned(r.Owner) {
			e.launch(r.ID) // this bridge was asked to go on
			continue
		}
		taken, _, err := records.Change(ctx, e.opts.Rollouts, string(r.ID), func(now *Rollout, _ uint64) (*Rollout, error) {
			if now == nil || now.ended() || now.Owner != r.Owner {
				return now, nil
			}
			mine := *now
			mine.Owner = e.opts.Owner
			return &mine, nil
		})
		if err != nil {
			return err
		}
		if taken != nil && !taken.ended() && taken.Owner == e.opts.Owner {
			e.launch(r.ID)
		}
	}
	return nil
}

// launch starts the worker of a rollout, unless it works.
func (e *Engine) launch(id protocol.TaskID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if r := e.runs[id]; r != nil {
		r.signal()
		return
	}
	r := newRun(e, id)
	e.runs[id] = r
	e.wg.Go(func() {
		r.work()
		e.left(r)
	})
}

// left forgets a worker, and starts another if the rollout was taken up again in
// that moment.
func (e *Engine) left(r *run) {
	e.mu.Lock()
	delete(e.runs, r.id)
	e.mu.Unlock()
	r.letGo()
	if now, _, ok := e.opts.Rollouts.Get(string(r.id)); ok && !now.ended() && now.Owner == e.opts.Owner {
		e.launch(r.id)
	}
}

func (e *Engine) find(id protocol.TaskID) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
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

// parts yields the parts of a rollout, in order.
func (e *Engine) parts(r *Rollout) iter.Seq2[int, *Part] {
	return func(yield func(int, *Part) bool) {
		for n := range min(r.Parts, mostParts) {
			if p, _, ok := e.opts.Parts.Get(partKey(r.ID, n)); ok && !yield(n, p) {
				return
			}
		}
	}
}

// event publishes an event of a rollout on its task's topic.
func (e *Engine) event(r *Rollout, seq uint64, name string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		e.opts.Log.Error("an event of a rollout cannot be told", "task", r.ID, "event", name, "error", err)
		return
	}
	e.opts.Publish(protocol.Everybody(cmp.Or(r.Caller.Space, protocol.DefaultSpace)), r.ID, &protocol.Event{
		Version: protocol.Version, ID: string(r.ID), Timestamp: e.opts.Clock.Now().UnixMilli(), Name: name, Seq: seq, Data: raw,
		Metadata: protocol.Metadata{SenderID: e.opts.BridgeID, TraceID: r.TraceID},
	})
}
