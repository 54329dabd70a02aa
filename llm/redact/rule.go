package redact

import (
	"fmt"
	"regexp"
)

// Redacted replaces what gets no placeholder.
const Redacted = "[redacted]"

// A Rule finds values that must not leave.
type Rule struct {
	name string                   // of its placeholders
	find func(text string) []span // where the values are; they may overlap
	with string                   // replaces them for good; "" for placeholders
}

// A span is a part of a text, in bytes.
type span struct{ from, to int }

// Kind is the rule for one of [Kinds]. With, unless "", replaces what it finds
// for good, instead of a placeholder.
func Kind(name, with string) (Rule, error) {
	find, ok := kinds[name]
	if !ok {
		return Rule{}, fmt.Errorf("kinds: %q is not known", name)
	}
	return Rule{name: name, find: find, with: with}, nil
}

// Pattern is the rule for a regular expression of RE2.
func Pattern(pattern, with string) (Rule, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return Rule{}, fmt.Errorf("pattern: %w", err)
	}
	return Rule{name: "redacted", find: matches(compiled), with: with}, nil
}

// matches finds what a pattern matches, but the empty text.
func matches(pattern *regexp.Regexp) func(string) []span {
	return func(text string) (found []span) {
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			if at[0] < at[1] {
				found = append(found, span{at[0], at[1]})
			}
		}
		return found
	}
}
