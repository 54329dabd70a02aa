package approval

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Rule sets the deciders and the times of calls. The first matching rule counts.
type Rule struct {
	Tools  []string           // patterns; empty for every tool
	Risks  []string           // in lower case; empty for every risk
	Spaces []protocol.SpaceID // empty for every space

	Deciders
	Needs      int           // number of required votes, at least 1
	Remind     time.Duration // interval of reminders to the deciders, 0 for none
	Escalate   time.Duration // time after which EscalateTo may decide, too; 0 never
	EscalateTo Deciders
	Life       time.Duration // time until the approval of a parked call expires, 0 for that of its risk
	Use        time.Duration // time within which a given approval can be used, 0 for that of its risk
}

// An Escalation adds deciders from a time on.
type Escalation struct {
	At int64    `json:"at"` // Unix ms
	To Deciders `json:"to"`
}

// A subject holds the inputs of rules: the names of a tool, the words of its risk, and
// the space.
type subject struct {
	names, risks []string
	space        protocol.SpaceID
}

// subjectOf is the subject of a call. Rules for a tool match the call of a group that
// reaches it.
func subjectOf(t *tools.Tool, x *tools.Execution) subject {
	return subject{append([]string{t.Name}, x.Reaches...), risksOf(t, x), spaceOf(x)}
}

// fits reports whether the rule matches a subject.
func (r *Rule) fits(about subject) bool {
	named := func(pattern string) bool {
		return slices.ContainsFunc(about.names, func(name string) bool { return tools.Matches(pattern, name) })
	}
	risky := func(risk string) bool { return slices.Contains(r.Risks, strings.ToLower(risk)) }
	return (len(r.Tools) == 0 || slices.ContainsFunc(r.Tools, named)) &&
		(len(r.Risks) == 0 || slices.ContainsFunc(about.risks, risky)) &&
		(len(r.Spaces) == 0 || slices.Contains(r.Spaces, about.space))
}

// risksOf returns the risks of a call, both in declared words and as tools.RiskAsk and
// tools.RiskDeny.
func risksOf(t *tools.Tool, x *tools.Execution) []string {
	return append([]string{t.Risk, t.RiskWords, x.Risk}, x.Risks...)
}

// rule is the first rule that matches a subject; an empty one if none does.
func (s *Service) rule(about subject) *Rule {
	for i := range s.opts.Rules {
		if s.opts.Rules[i].fits(about) {
			return &s.opts.Rules[i]
		}
	}
	return new(Rule)
}

// applyTo sets the deciders and times of a draft to those of the rule.
func (rule *Rule) applyTo(r *Record) {
	r.Deciders = rule.Deciders
	if rule.Needs > 1 {
		r.Needs = rule.Needs
	}
	r.RemindEvery = rule.Remind.Milliseconds()
	if rule.Escalate > 0 {
		r.Escalation = &Escalation{At: r.AskedAt + rule.Escalate.Milliseconds(), To: rule.EscalateTo}
	}
}

// escalatesTo returns the further deciders of the escalation, none without one.
func (r *Record) escalatesTo() Deciders {
	if r.Escalation == nil {
		return Deciders{}
	}
	return r.Escalation.To
}

// due is the time of the next step of a pending approval.
func (r *Record) due() int64 {
	at := r.Expires
	for _, sooner := range []int64{r.remindsAt(), r.escalatesAt()} {
		if sooner > 0 && sooner < at {
			at = sooner
		}
	}
	return at
}

// remindsAt is the time of the next reminder, 0 for none.
func (r *Record) remindsAt() int64 {
	if r.RemindEvery <= 0 {
		return 0
	}
	return cmp.Or(r.RemindedAt, r.AskedAt) + r.RemindEvery
}

// escalatesAt is the time of the escalation, 0 if there is none or it has happened.
func (r *Record) escalatesAt() int64 {
	if r.Escalation == nil || r.EscalatedAt != 0 {
		return 0
	}
	return r.Escalation.At
}
