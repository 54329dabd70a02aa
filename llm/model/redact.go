package model

import (
	"slices"

	"github.com/aibridge/aibridge/llm/redact"
)

// A Redaction takes secrets out of requests before they leave the house.
type Redaction struct {
	Spaces  []string `yaml:"spaces"`  // whose queries; all by default
	Kinds   []string `yaml:"kinds"`   // see [redact.Kinds]
	Pattern string   `yaml:"pattern"` // a regular expression of RE2
	With    string   `yaml:"with"`    // stands there instead, for good; by default a placeholder that is turned back in answers
}

// A redactor is a rule and the spaces whose queries it is for, none for all.
type redactor struct {
	spaces []string
	redact.Rule
}

func (r *Redaction) compile() (list []redactor, err error) {
	kinds := slices.Clone(r.Kinds)
	slices.SortStableFunc(kinds, func(a, b string) int { return rank(a) - rank(b) })
	for _, kind := range kinds {
		rule, err := redact.Kind(kind, r.With)
		if err != nil {
			return nil, err
		}
		list = append(list, redactor{r.Spaces, rule})
	}
	if r.Pattern != "" {
		rule, err := redact.Pattern(r.Pattern, r.With)
		if err != nil {
			return nil, err
		}
		list = append(list, redactor{r.Spaces, rule})
	}
	return list, nil
}

// rank puts the kinds first that say most about a number: what two of them
// find belongs to the first.
func rank(kind string) int {
	if i := slices.Index([]string{"iban", "national_id", "card"}, kind); i >= 0 {
		return i
	}
	return 3
}

// redactions are the rules for a space.
func (c *catalog) redactions(space string) (rules []redact.Rule) {
	for _, r := range c.redactors {
		if len(r.spaces) == 0 || slices.Contains(r.spaces, space) {
			rules = append(rules, r.Rule)
		}
	}
	return rules
}

// mask takes out of a question what must not leave. It returns the mask that
// puts it back into the answer, nil if there was nothing.
func (s *Service) mask(cat *catalog, q *question) *redact.Mask {
	rules := cat.redactions(q.space)
	if len(rules) == 0 {
		return nil
	}
	mask := redact.New(rules)
	mask.JSON = len(q.request.Options.Format) > 0
	q.request.Messages = mask.Messages(q.request.Messages)
	if mask.Taken() == 0 {
		return nil
	}
	s.metrics.redacted.Add(float64(mask.Taken()))
	if q.emit != nil {
		q.emit = mask.Stream(q.emit)
	}
	return mask
}

// unmasked is a reply as its asker gets it. The one given may be shared with
// others, whose values are others.
func unmasked(o *Reply, mask *redact.Mask) *Reply {
	if o == nil || mask == nil {
		return o
	}
	own := *o
	own.Answer = mask.Answer(o.Answer)
	return &own
}
