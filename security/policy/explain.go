package policy

import (
	"slices"
	"strings"
)

// An Explanation is a decision with the policies that made it.
type Explanation struct {
	Decision string     `json:"decision" enum:"allow,deny" doc:"the decision, for the request as described"`
	Reason   string     `json:"reason" doc:"in words"`
	Policies []Deciding `json:"policies" doc:"those that decided: the ones that forbid, or else the ones that permit"`
	Failed   []Failed   `json:"failed,omitempty" doc:"policies that could not be evaluated"`
	Asked    int        `json:"asked" doc:"number of policies that can have a say about the action"`
}

// A Deciding policy decided.
type Deciding struct {
	ID     string `json:"id" doc:"id of the policy: the name of its text, with its @id or its number in the text if it needs one (home/night, home/2)"`
	Effect string `json:"effect" enum:"permit,forbid" doc:"effect of the policy; one that forbids outweighs all that permit"`
	From   Kind   `json:"from" enum:"shipped,file,stored,trial" doc:"origin of its text: the bridge, security.policies, policy.put, or policy.put on trial"`
	Line   int    `json:"line" doc:"in its text"`
	Why    string `json:"why,omitempty" doc:"reason by its author, @why"`
	Text   string `json:"text" doc:"the policy"`
}

// A Failed policy could not be evaluated.
type Failed struct {
	ID    string `json:"id" doc:"id of the policy, as in policies"`
	Error string `json:"error" doc:"error of the evaluation, in the words of Cedar"`
}

// Explain decides like [Engine.Decide], without the cache, and says why.
func (e *Engine) Explain(q *Query) Explanation {
	return e.explain(e.program.Load(), q)
}

// explain decides by a program.
func (e *Engine) explain(program *program, q *Query) Explanation {
	about := program.about(q.Action)
	subject := newSubject(q.Who)
	space := q.Space
	if space == "" {
		space = q.Who.Home()
	}
	v := program.judge(about, &world{
		subject: subject, query: q, space: space, resource: resourceUID(q, space), entities: e.opts.Entities,
	}, e.opts.Now())
	x := Explanation{Decision: "deny", Policies: []Deciding{}, Asked: len(about.rules)}
	if v.allowed {
		x.Decision = "allow"
	}
	for _, reason := range v.reasons {
		if r := program.byID[string(reason.PolicyID)]; r != nil {
			x.Policies = append(x.Policies, r.deciding())
		}
	}
	slices.SortFunc(x.Policies, func(a, b Deciding) int { return strings.Compare(a.ID, b.ID) })
	for _, f := range v.errors {
		x.Failed = append(x.Failed, Failed{string(f.PolicyID), f.Message})
	}
	x.Reason = x.inWords(&v)
	return x
}

func (r *rule) deciding() Deciding {
	return Deciding{ID: r.id, Effect: r.effect(), From: r.source.Kind, Line: r.position, Why: r.why, Text: strings.TrimSpace(string(r.policy.MarshalCedar()))}
}

func (x *Explanation) inWords(v *verdict) string {
	if len(x.Policies) == 0 {
		return "no policy permits it"
	}
	p := x.Policies[0]
	verb := "permits it"
	if !v.allowed {
		verb = "forbids it"
	}
	text := p.ID + " " + verb
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}
