package policy

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Mode says whether policies decide.
type Mode string

// The modes. "" is Enforce.
const (
	Enforce Mode = "enforce"
	Observe Mode = "observe" // they are on trial
)

func (m Mode) kind() Kind {
	if m == Observe {
		return Trial
	}
	return Stored
}

// trialPrefix begins the names of texts on trial.
const trialPrefix = "trial:"

// table is the table of texts of a kind.
func (s *Service) table(of Kind) records.Table[Record] {
	if of == Trial {
		return s.Trials
	}
	return s.Records
}

// A trial is the policies together with those on trial, and the decisions that
// would have been different.
type trial struct {
	program *program
	inForce *program
	report  *report

	touched sync.Map // action → whether its policies are others than those in force
}

// about is the policies about an action, nil if they are those in force.
func (t *trial) about(action string) *slice {
	if t == nil {
		return nil
	}
	s := t.program.about(action)
	differs, known := t.touched.Load(action)
	if !known {
		differs = !slices.Equal(s.rules, t.inForce.about(action).rules)
		if _, kept := t.program.slices.Load(action); kept {
			t.touched.Store(strings.Clone(action), differs)
		}
	}
	if !differs.(bool) {
		return nil
	}
	return s
}

// sameTrial reports whether the texts on trial are those that the present trial
// was made of. The engine is locked.
func (e *Engine) sameTrial() bool {
	var now []*rule
	for from, l := range e.texts {
		if from.Kind == Trial {
			now = append(now, l.rules...)
		}
	}
	var before []*rule
	for _, r := range e.trial.Load().program.rules {
		if r.source.Kind == Trial {
			before = append(before, r)
		}
	}
	byID(now)
	byID(before)
	return slices.Equal(now, before)
}

// ExplainTrial is [Engine.Explain] by the policies as they would be with those
// on trial.
func (e *Engine) ExplainTrial(q *Query) Explanation {
	if t := e.trial.Load(); t != nil {
		return e.explain(t.program, q)
	}
	return e.Explain(q)
}

// compare judges by the trial a query that the policies in force have judged. It returns
// the counter of the difference, which is counted once, or nil if there is none.
func (t *trial) compare(s *slice, inForce *verdict, w *world, now time.Time) *Difference {
	t.report.judged.Add(1)
	v := t.program.judge(s, w, now)
	if v.allowed == inForce.allowed {
		return nil
	}
	return t.report.add(outcomeOf(w.query.Action, v.allowed), deciding(inForce, &v), w, now)
}

// deciding is the policy that makes the difference: one on trial if one of those
// decides, else one in force that no longer decides, "" if none permits.
func deciding(inForce, tried *verdict) string {
	var ids []string
	for _, r := range tried.reasons {
		if id := string(r.PolicyID); strings.HasPrefix(id, trialPrefix) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		for _, r := range inForce.reasons {
			ids = append(ids, string(r.PolicyID))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return slices.Min(ids)
}

// An Outcome is a decision of the policies on trial that differs from the one in force.
type Outcome string

// The outcomes.
const (
	WouldRefuse Outcome = "refuse" // a permitted action
	WouldAllow  Outcome = "allow"  // a refused action
	WouldAsk    Outcome = "ask"    // for approval of a model's call that runs by itself
	WouldRun    Outcome = "run"    // without asking, a model's call that needs an approval
)

// unattended is the action that a call of a model needs to run by itself.
const unattended = "tool:unattended"

func outcomeOf(action string, allowed bool) Outcome {
	switch {
	case action == unattended && allowed:
		return WouldRun
	case action == unattended:
		return WouldAsk
	case allowed:
		return WouldAllow
	}
	return WouldRefuse
}

// Bounds of a report.
const (
	maxDifferences = 256
	maxExamples    = 5
	maxExampleText = 256 // bytes of an id
)

// A report is the findings of a trial.
type report struct {
	since  time.Time
	judged atomic.Uint64 // by the trial

	mu     sync.Mutex
	found  map[differenceKey]*Difference
	others Difference // beyond the bound, counted together
}

type differenceKey struct {
	outcome              Outcome
	action, family, rule string
	kind                 protocol.Kind
}

func newReport(now time.Time) *report {
	return &report{since: now, found: make(map[differenceKey]*Difference)}
}

// A Difference counts decisions of one sort that a trial would have made
// otherwise.
type Difference struct {
	key   differenceKey
	count atomic.Uint64
	first int64
	last  atomic.Int64 // Unix milliseconds

	examples []Example // guarded by the report
}

// An Example is one of the decisions.
type Example struct {
	Principal string           `json:"principal" doc:"id of who asked"`
	Space     protocol.SpaceID `json:"space_id" doc:"its space"`
	Resource  string           `json:"resource,omitempty" doc:"id of what it was about; absent for lists"`
	Door      string           `json:"door,omitempty" doc:"door by which it came, if the decision was about a call"`
	At        int64            `json:"at" doc:"time at which it was met first, Unix milliseconds"`
}

// again counts a difference that is known.
func (d *Difference) again(now time.Time) {
	d.count.Add(1)
	d.last.Store(now.UnixMilli())
}

// add counts a difference, and keeps it as an example if there are few. The
// texts of a query may lie in a buffer, so they are copied.
func (r *report) add(outcome Outcome, rule string, w *world, now time.Time) *Difference {
	q := w.query
	key := differenceKey{outcome, q.Action, q.Type, rule, q.Who.Kind}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.found[key]
	switch {
	case d != nil:
	case len(r.found) >= maxDifferences:
		r.others.again(now)
		return &r.others
	default:
		key.action, key.family = strings.Clone(key.action), strings.Clone(key.family)
		d = &Difference{key: key, first: now.UnixMilli()}
		r.found[key] = d
	}
	d.again(now)
	if example := exampleOf(w, now); len(d.examples) < maxExamples && !slices.ContainsFunc(d.examples, example.like) {
		d.examples = append(d.examples, example)
	}
	return d
}

func exampleOf(w *world, now time.Time) Example {
	q := w.query
	short := func(s string) string {
		return strings.ToValidUTF8(strings.Clone(s[:min(len(s), maxExampleText)]), "")
	}
	return Example{Principal: short(q.Who.ID), Space: protocol.SpaceID(short(string(q.Who.Home()))), Resource: short(q.ID), Door: short(q.Door), At: now.UnixMilli()}
}

// like reports whether both are of the same principal and resource.
func (x Example) like(o Example) bool {
	return x.Principal == o.Principal && x.Space == o.Space && x.Resource == o.Resource
}

// A Finding is a difference as callers see it.
type Finding struct {
	Outcome  Outcome       `json:"outcome" enum:"refuse,allow,ask,run" doc:"the policies on trial would refuse what is permitted; allow what is refused; have somebody asked about a model's call that runs by itself; let one run that somebody is asked about"`
	Action   string        `json:"action" doc:"action that was decided about"`
	Type     string        `json:"type,omitempty" doc:"family of the resources; absent for none in particular"`
	Kind     protocol.Kind `json:"kind,omitempty" doc:"kind of party that asked: operator, agent, skill, bridge"`
	Policy   string        `json:"policy,omitempty" doc:"id of the policy that makes the difference; absent if there is none that permits"`
	Count    uint64        `json:"count" doc:"number of decisions about it"`
	FirstAt  int64         `json:"first_at" doc:"Unix milliseconds"`
	LastAt   int64         `json:"last_at" doc:"Unix milliseconds"`
	Examples []Example     `json:"examples" doc:"up to 5, each of another principal or resource; without params"`
}

// findings are all differences, the most frequent first.
func (r *report) findings() []Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []Finding{}
	for key, d := range r.found {
		list = append(list, Finding{
			Outcome: key.outcome, Action: key.action, Type: key.family, Kind: key.kind, Policy: key.rule,
			Count: d.count.Load(), FirstAt: d.first, LastAt: d.last.Load(), Examples: slices.Clone(d.examples),
		})
	}
	sortFindings(list)
	return list
}

// sortFindings puts the most frequent first.
func sortFindings(list []Finding) {
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Type, b.Type))
	})
}
