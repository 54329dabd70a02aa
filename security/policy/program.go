package policy

import (
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// A program is all policies as they are at one time. It is immutable, except for
// its cache about actions.
type program struct {
	words   *vocabulary
	rules   []*rule // by id
	byID    map[string]*rule
	version string // the same only of the same texts

	slices  sync.Map     // action → *slice
	foreign atomic.Int32 // of these, how many are of actions that agents brought
}

// mostForeign bounds the actions of agents that are remembered: there may be
// any number.
const mostForeign = 1024

func newProgram(words *vocabulary, rules []*rule) *program {
	p := &program{words: words, rules: rules, byID: make(map[string]*rule, len(rules))}
	byID(p.rules)
	for _, r := range rules {
		p.byID[r.id] = r
	}
	return p
}

// A slice is the policies that can apply to one action.
type slice struct {
	rules   []*rule
	shipped []*rule // of these
	reads   reads
	action  types.Entity
}

// A list is rules as Cedar takes them.
type list []*rule

// All implements [cedar.PolicyIterator].
func (l list) All() iter.Seq2[types.PolicyID, *cedar.Policy] {
	return func(yield func(types.PolicyID, *cedar.Policy) bool) {
		for _, r := range l {
			if !yield(types.PolicyID(r.id), r.policy) {
				return
			}
		}
	}
}

// about returns the policies that can apply to an action.
func (p *program) about(action string) *slice {
	if s, ok := p.slices.Load(action); ok {
		return s.(*slice)
	}
	groups := p.words.groupsOf(action)
	s := &slice{action: types.Entity{UID: actionUID(strings.Clone(action))}}
	parents := make([]cedar.EntityUID, len(groups))
	for i, g := range groups {
		parents[i] = actionUID(g)
	}
	s.action.Parents = cedar.NewEntityUIDSet(parents...)
	for _, r := range p.rules {
		if !concerns(r.policy, action, groups) {
			continue
		}
		s.rules = append(s.rules, r)
		s.reads |= r.reads
		if r.builtin {
			s.shipped = append(s.shipped, r)
		}
	}
	if _, known := p.words.actions[action]; known || p.foreign.Add(1) <= mostForeign {
		p.slices.Store(strings.Clone(action), s)
	}
	return s
}

// concerns reports whether the scope of a policy covers an action.
func concerns(p *cedar.Policy, action string, groups []string) bool {
	covers := func(uid cedar.EntityUID) bool {
		if uid.Type != typeAction {
			return false
		}
		if string(uid.ID) == action {
			return true
		}
		for _, g := range groups {
			if string(uid.ID) == g {
				return true
			}
		}
		return false
	}
	switch scope := (*ast.Policy)(p.AST()).Action.(type) {
	case ast.ScopeTypeEq:
		return scope.Entity == actionUID(action)
	case ast.ScopeTypeIn:
		return covers(scope.Entity)
	case ast.ScopeTypeInSet:
		for _, uid := range scope.Entities {
			if covers(uid) {
				return true
			}
		}
		return false
	}
	return true
}

// A verdict is a decision of policies, with those that made it.
type verdict struct {
	allowed bool
	reasons []types.DiagnosticReason
	errors  []types.DiagnosticError
}

// judge evaluates the policies of a slice. A policy whose evaluation fails is
// skipped if it permits, and applies if it forbids.
func (p *program) judge(s *slice, w *world, now time.Time) verdict {
	w.action, w.reads = s.action, s.reads
	request := cedar.Request{Principal: w.subject.uid, Action: s.action.UID, Resource: w.resource}
	if s.reads&(readsContext|readsCredential) != 0 {
		request.Context = w.context(now)
	}
	rules := s.rules
	if w.subject.mighty && familyOf(w.query.Action) == "policy" {
		rules = s.shipped // no policy locks the administrators out
	}
	decision, diagnostic := cedar.Authorize(list(rules), w, request)
	v := verdict{allowed: bool(decision), reasons: diagnostic.Reasons, errors: diagnostic.Errors}
	for _, failed := range v.errors {
		if r := p.byID[string(failed.PolicyID)]; r != nil && r.policy.Effect() == cedar.Forbid {
			v.allowed = false
			v.reasons = append(v.reasons, types.DiagnosticReason{PolicyID: failed.PolicyID, Position: failed.Position})
		}
	}
	return v
}
