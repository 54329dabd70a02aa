package llm

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/aibridge/aibridge/llm/chat"
)

// A Redaction takes out of what is asked what must not leave the house.
type Redaction struct {
	Spaces  []string `yaml:"spaces"`  // whose queries; all by default
	Kinds   []string `yaml:"kinds"`   // email, phone, card, iban, ip, key
	Pattern string   `yaml:"pattern"` // a regular expression of RE2
	With    string   `yaml:"with"`    // stands there instead; [redacted] by default
}

// kinds are patterns for what everybody means. They look for the usual forms,
// not for everything that could be one.
var kinds = map[string]string{
	"email": `[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`,
	"phone": `\+\d[\d ()./-]{6,18}\d`,
	"card":  `\b(?:\d[ -]?){12,18}\d\b`,
	"iban":  `\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`,
	"ip":    `\b(?:\d{1,3}\.){3}\d{1,3}\b`,
	"key":   `\b(?:sk|pk|ghp|gho|glpat|xox[bp]|AKIA|AIza|abk)[-_]?[A-Za-z0-9_.-]{16,}`,
}

type redactor struct {
	spaces  []string
	pattern *regexp.Regexp
	with    []byte
}

func (r *Redaction) compile() ([]redactor, error) {
	with := r.With
	if with == "" {
		with = "[redacted]"
	}
	var patterns []string
	for _, kind := range r.Kinds {
		pattern, ok := kinds[kind]
		if !ok {
			return nil, fmt.Errorf("kinds: %q is not known", kind)
		}
		if kind == "iban" { // before the numbers in it are taken for a card's
			patterns = slices.Insert(patterns, 0, pattern)
			continue
		}
		patterns = append(patterns, pattern)
	}
	if r.Pattern != "" {
		patterns = append(patterns, r.Pattern)
	}
	var list []redactor
	for _, p := range patterns {
		compiled, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("pattern: %w", err)
		}
		list = append(list, redactor{r.Spaces, compiled, []byte(with)})
	}
	return list, nil
}

// redact returns the messages without what the space must not tell, and how
// often something was taken out. The messages given are left as they are.
func redact(list []redactor, space string, messages []chat.Message) (clean []chat.Message, taken int) {
	list = slices.DeleteFunc(slices.Clone(list), func(r redactor) bool {
		return len(r.spaces) > 0 && !slices.Contains(r.spaces, space)
	})
	if len(list) == 0 {
		return messages, 0
	}
	apply := func(text []byte) []byte {
		for _, r := range list {
			text = r.pattern.ReplaceAllFunc(text, func([]byte) []byte { taken++; return r.with })
		}
		return text
	}
	clean = slices.Clone(messages)
	for i := range clean {
		clean[i].Segments = slices.Clone(clean[i].Segments)
		for j := range clean[i].Segments {
			s := &clean[i].Segments[j]
			switch {
			case s.Opaque != nil && len(s.Opaque.Data) > 0: // its provider has it already, and wants it unchanged
			case s.Type == chat.Text || s.Type == chat.Reasoning:
				s.Text = string(apply([]byte(s.Text)))
			}
		}
	}
	return clean, taken
}
