package policy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure an [Engine].
type Options struct {
	Actions    *commands.Set // that policies may name
	Entities   Entities      // nil knows nothing of resources
	Notify     func(Event)   // called after changes of policies; optional. It must not block
	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// An Event is something that happened to the policies, for operators.
type Event struct {
	Name   string // policy.changed, policy.removed, policy.broken
	Policy string // the name of its text
	From   Kind
	Reason string // why it is broken, "" for a good one
}

// An Engine decides. It is made with the policies that come with the bridge.
type Engine struct {
	opts      Options
	words     *vocabulary
	validator *validate.Validator
	cache     *cache
	metrics   *metrics

	program atomic.Pointer[program]
	trial   atomic.Pointer[trial] // nil while no policy is on trial
	epoch   atomic.Uint64
	facts   atomic.Uint64

	mu      sync.Mutex
	texts   map[Source]*loaded
	changed []func()
}

// New makes an engine.
func New(o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	e := &Engine{opts: o, words: newVocabulary(o.Actions), cache: newCache(mostPerShard), texts: make(map[Source]*loaded)}
	e.facts.Store(1)
	var err error
	if e.validator, err = e.words.validator(); err != nil {
		return nil, err
	}
	if err := e.loadShipped(); err != nil {
		return nil, err
	}
	e.metrics, err = newMetrics(o.Registerer, e)
	return e, err
}

// A Decision is the answer to a [Query].
type Decision struct {
	Allowed bool
	// Passing is whether the answer may change with time alone: a policy looked at
	// the time.
	Passing bool
	// Until is the time up to which the answer may be kept, unless [Engine.Epoch]
	// moves; zero if it may not be.
	Until time.Time
	// Tried is whether the decision is to be asked for every time, as policies on
	// trial would decide otherwise, which is counted.
	Tried bool
}

// Decide decides by policies. It neither checks the scopes of a credential nor the
// walls between spaces: see package security.
func (e *Engine) Decide(q *Query) Decision {
	epoch, facts := e.epoch.Load(), e.facts.Load()
	program := e.program.Load()
	about := program.about(q.Action)
	reads := about.reads
	trial := e.trial.Load()
	tried := trial.about(q.Action)
	if tried != nil {
		reads |= tried.reads
	}
	subject, part := e.cache.subject(q.Who)
	space := q.Space
	if space == "" {
		space = q.Who.Home()
	}
	now := e.opts.Now()
	passing := about.reads&readsTime != 0
	k := key{subject: subject, action: q.Action, family: q.Type, id: q.ID, space: space}
	if reads&readsContext != 0 {
		k.narrow(q, reads)
	}
	keep := reads&readsTime == 0 && k.given(q.Facts)
	if keep {
		if d, ok := part.get(&k); ok && d.epoch == epoch && (d.facts == 0 || d.facts == facts) && now.UnixNano() < d.until {
			e.metrics.hits.Add(1)
			return d.decision(now)
		}
	}
	w := &world{subject: subject, query: q, space: space, resource: resourceUID(q, space), entities: e.opts.Entities}
	v := program.judge(about, w, now)
	e.judged(q, &v)
	d := kept{allowed: v.allowed, epoch: epoch, until: now.Add(keptFor).UnixNano()}
	if tried != nil {
		d.differs = trial.compare(tried, &v, w, now)
	}
	if !keep {
		return Decision{Allowed: v.allowed, Passing: passing, Tried: tried != nil}
	}
	if reads&readsFacts != 0 {
		d.facts = facts
	}
	part.put(&k, d)
	return d.answer()
}

// given adds the caller's facts about a topic to the key. It reports false if there
// are other facts, which cannot be part of a key.
func (k *key) given(f *Facts) bool {
	if f == nil {
		return true
	}
	k.cap, k.kind, k.own = f.Cap, f.Kind, f.Own
	return f.Kind != "" && f.Agents == nil && f.Owner.ID == "" && f.Group == "" && f.Scene == "" && f.Skill == ""
}

// narrow makes one key for all calls that look the same to policies.
func (k *key) narrow(q *Query, r reads) {
	if r&readsDoor != 0 {
		k.door = q.Door
	}
	if r&readsSender != 0 {
		k.sender = q.SenderID
	}
	if r&readsAddress != 0 {
		k.address = q.Address
	}
}

// judged counts, and complains about policies that fail.
func (e *Engine) judged(q *Query, v *verdict) {
	e.metrics.evaluated.Add(1)
	for _, failed := range v.errors {
		e.metrics.failures.Inc()
		e.opts.Log.Warn("a policy failed", "policy", string(failed.PolicyID), "action", q.Action, "error", failed.Message)
	}
}

// Version names the texts that are in force: 12 hexadecimal digits, the same on every
// bridge and after every start that has the same texts.
func (e *Engine) Version() string { return e.program.Load().version }

// Epoch moves whenever a decision may have become another one.
func (e *Engine) Epoch() uint64 { return e.epoch.Load() + e.facts.Load() }

// A Standing holds the facts that decisions about a principal depend on besides
// the resource and the circumstances of a call. Two that are equal, by ==, are
// decided about alike.
type Standing struct {
	subject      *subject
	epoch, facts uint64
}

// Standing returns the standing of a principal now.
func (e *Engine) Standing(who *protocol.Principal) Standing {
	epoch, facts := e.epoch.Load(), e.facts.Load()
	subject, _ := e.cache.subject(who)
	return Standing{subject, epoch, facts}
}

// Revision moves whenever policies, or the roles of a principal, change.
func (e *Engine) Revision() uint64 { return e.epoch.Load() }

// Forget drops every decision, because a certificate or a role changed.
func (e *Engine) Forget() { e.moved(&e.epoch) }

// FactsChanged drops the decisions that depend on owners and memberships. It is
// cheap and does not block.
func (e *Engine) FactsChanged() { e.facts.Add(1) }

// OnChange calls f after every change of the policies. It must not block.
func (e *Engine) OnChange(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed = append(e.changed, f)
}

func (e *Engine) moved(epoch *atomic.Uint64) {
	epoch.Add(1)
	e.mu.Lock()
	told := e.changed
	e.mu.Unlock()
	for _, f := range told {
		f()
	}
}

// lookAgain is the interval at which decisions that last, such as subscriptions, are made
// again if a policy looks at the time.
const lookAgain = 30 * time.Second

// Run has lasting decisions made again while policies look at the time, until
// ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if p := e.program.Load(); p.about(Subscribe).reads&readsTime != 0 {
				e.moved(&e.facts)
			}
		}
	}
}
