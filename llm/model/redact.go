package model

import (
	"slices"

	"github.com/aibridge/aibridge/llm/redact"
)

// A Redaction removes secrets from requests before they leave the bridge.
type Redaction struct {
	Spaces  []string `yaml:"spaces"`  // spaces of the queries; all by default
	Kinds   []string `yaml:"kinds"`   // see [redact.Kinds]
	Pattern string   `yaml:"pattern"` // a regular expression of RE2
	With    string   `yaml:"with"`    // permanent replacement; by default a placeholder, whose value is restored in answers
}

// A redactor is a rule with the spaces of its queries, none for all.
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

// rank orders kinds by how specific they are: a number that two of them find belongs to
// the first.
func rank(kind string) int {
	if i := slices.Index([]string{"iban", "national_id", "card"}, kind); i >= 0 {
		return i
	}
	return 3
}

// redactions returns the rules for a space.
func (c *catalog) redactions(space string) (rules []redact.Rule) {
	for _, r := range c.redactors {
		if len(r.spaces) == 0 || slices.Contains(r.spaces, space) {
			rules = append(rules, r.Rule)
		}
	}
	return rules
}

// mask redacts a question. It returns the mask that restores the values in the answer,
// nil if nothing was redacted.
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

// unmasked returns a reply with its values restored. The given reply may be shared with
// callers that have other values, and is not changed.
func unmasked(o *Reply, mask *redact.Mask) *Reply {
	if o == nil || mask == nil {
		return o
	}
	own := *o
	own.Answer = mask.Answer(o.Answer)
	return &own
}
