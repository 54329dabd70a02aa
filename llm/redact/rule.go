package redact

import (
	"fmt"
	"regexp"
)

// Redacted is the replacement of values without a placeholder.
const Redacted = "[redacted]"

// A Rule finds values that must not leave.
type Rule struct {
	name string                   // of its placeholders
	find func(text string) []span // places of the values; they may overlap
	with string                   // permanent replacement; "" for placeholders
}

// A span is a part of a text, in bytes.
type span struct{ from, to int }

// Kind returns the rule for one of [Kinds]. With, unless "", is a permanent replacement
// instead of placeholders.
func Kind(name, with string) (Rule, error) {
	find, ok := kinds[name]
	if !ok {
		return Rule{}, fmt.Errorf("kinds: %q is not known", name)
	}
	return Rule{name: name, find: find, with: with}, nil
}

// Pattern returns the rule for a regular expression of RE2. With is as for [Kind].
func Pattern(pattern, with string) (Rule, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return Rule{}, fmt.Errorf("pattern: %w", err)
	}
	return Rule{name: "redacted", find: matches(compiled), with: with}, nil
}

// matches returns the finder of a pattern's matches, without empty ones.
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
