package approval

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Rule says who decides about calls, and by when. Of several the first counts
// that fits.
type Rule struct {
	Tools  []string           // patterns; every tool if there are none
	Risks  []string           // in lower case; every risk if there are none
	Spaces []protocol.SpaceID // every space if there are none

	Deciders
	Needs      int           // how many have to agree, at least 1
	Remind     time.Duration // how often those are reminded who could decide, 0 never
	Escalate   time.Duration // after how long EscalateTo may decide, too; 0 never
	EscalateTo Deciders
	Life       time.Duration // of a question about a kept call, 0 for that of its risk
	Use        time.Duration // of an approval that was given, 0 for that of its risk
}

// An Escalation is who may decide from a time on, besides others.
type Escalation struct {
	At int64    `json:"at"` // Unix ms
	To Deciders `json:"to"`
}

// A subject is what rules look at: the names under which something is known, the
// words of its risk, and the space that it happens in.
type subject struct {
	names, risks []string
	space        protocol.SpaceID
}

// subjectOf is a call as rules see it. What they say of a tool holds for a group
// that reaches it.
func subjectOf(t *tools.Tool, x *tools.Execution) subject {
	return subject{append([]string{t.Name}, x.Reaches...), risksOf(t, x), spaceOf(x)}
}

// fits reports whether the rule is about a subject.
func (r *Rule) fits(about subject) bool {
	named := func(pattern string) bool {
		return slices.ContainsFunc(about.names, func(name string) bool { return tools.Matches(pattern, name) })
	}
	risky := func(risk string) bool { return slices.Contains(r.Risks, strings.ToLower(risk)) }
	return (len(r.Tools) == 0 || slices.ContainsFunc(r.Tools, named)) &&
		(len(r.Risks) == 0 || slices.ContainsFunc(about.risks, risky)) &&
		(len(r.Spaces) == 0 || slices.Contains(r.Spaces, about.space))
}

// risksOf are the words of the risk of a call, and what they mean.
func risksOf(t *tools.Tool, x *tools.Execution) []string {
	return append([]string{t.Risk, t.RiskWords, x.Risk}, x.Risks...)
}

// rule is the one for a subject; an empty one if none fits.
func (s *Service) rule(about subject) *Rule {
	for i := range s.opts.Rules {
		if s.opts.Rules[i].fits(about) {
			return &s.opts.Rules[i]
		}
	}
	return new(Rule)
}

// applyTo has a draft decided as the rule says.
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

// escalatesTo are those who may decide later, too; none without an escalation.
func (r *Record) escalatesTo() Deciders {
	if r.Escalation == nil {
		return Deciders{}
	}
	return r.Escalation.To
}

// due is the time when an approval without a decision is to be looked at.
func (r *Record) due() int64 {
	at := r.Expires
	for _, sooner := range []int64{r.remindsAt(), r.escalatesAt()} {
		if sooner > 0 && sooner < at {
			at = sooner
		}
	}
	return at
}

// remindsAt is the time when those who could decide are reminded, 0 for never.
func (r *Record) remindsAt() int64 {
	if r.RemindEvery <= 0 {
		return 0
	}
	return cmp.Or(r.RemindedAt, r.AskedAt) + r.RemindEvery
}

// escalatesAt is the time when more people may decide, 0 for never or already.
func (r *Record) escalatesAt() int64 {
	if r.Escalation == nil || r.EscalatedAt != 0 {
		return 0
	}
	return r.Escalation.At
}
