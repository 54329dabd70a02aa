package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// A stringNode decodes strings and identifiers.
type stringNode struct {
	rule    *protocol.Rule
	size    bounds
	enum    []string
	pattern *regexp.Regexp
	legible func(string) string // the reason why a text could mislead people; nil for strings that people do not read
	text    bool                // the type reads and writes itself

	document json.RawMessage // the type's own schema, nil for none
}

func (c compiler) newString(t reflect.Type, limits *tags) (*stringNode, error) {
	n := &stringNode{text: c.texts(t)}
	if t.Implements(identifierType) {
		rule := reflect.Zero(t).Interface().(protocol.Identifier).Rule()
		n.rule = &rule
	}
	var err error
	if n.document, err = ownSchema(t); err != nil {
		return nil, err
	}
	if n.size, err = limits.len(); err != nil {
		return nil, err
	}
	if n.enum, err = limits.enum(); err != nil {
		return nil, err
	}
	if n.legible, err = limits.text(); err != nil {
		return nil, err
	}
	n.pattern, err = limits.pattern()
	return n, err
}

func (n *stringNode) decode(d *decoder, v reflect.Value) {
	s, ok := d.text()
	if !ok {
		return
	}
	if reason := n.wrong(s); reason != "" {
		d.report(reason)
		return
	}
	if n.text {
		readText(d, v, s)
		return
	}
	v.SetString(s)
}

// wrong is the reason why a string is refused, "" if it is not.
func (n *stringNode) wrong(s string) string {
	if n.rule != nil && !n.plain(s) {
		if reason := n.rule.Check(s); reason != "" {
			return reason
		}
	}
	if n.enum != nil && !slices.Contains(n.enum, s) {
		return oneOf(n.enum, s)
	}
	if n.size != (bounds{0, unbounded}) {
		if reason := n.size.check(utf8.RuneCountInString(s), "characters"); reason != "" {
			return reason
		}
	}
	if n.legible != nil {
		if reason := n.legible(s); reason != "" {
			return reason
		}
	}
	if n.pattern != nil && !n.pattern.MatchString(s) {
		return "must match " + n.pattern.String()
	}
	return ""
}

// plain reports whether a string obviously satisfies the rule, as nearly all
// identifiers do: letters, digits and harmless punctuation, and not too long.
func (n *stringNode) plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c == '_', c == '-', c == '.', c == ':':
		default:
			return false
		}
	}
	return len(s) >= n.rule.Min && len(s) <= n.rule.Max
}

func oneOf(allowed []string, got string) string {
	return fmt.Sprintf("must be one of %s, is %q", strings.Join(allowed, ", "), clip(got))
}

func (n *stringNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	if n.text {
		return writeText(dst, v)
	}
	return protocol.AppendString(dst, v.String()), nil
}

func (n *stringNode) schema() *object {
	if n.document != nil {
		return &object{verbatim: n.document}
	}
	o := typed("string")
	size := n.size
	if n.rule != nil {
		size.min = max(size.min, n.rule.Min)
		if size.max == unbounded || n.rule.Max < size.max {
			size.max = n.rule.Max
		}
	}
	size.describe(o, "minLength", "maxLength")
	if n.enum != nil {
		o.set("enum", n.enum)
	}
	switch {
	case n.rule != nil && n.rule.Name && n.pattern != nil:
		o.set("allOf", []*object{new(object).set("pattern", namePattern), new(object).set("pattern", n.pattern.String())})
	case n.rule != nil && n.rule.Name:
		o.set("pattern", namePattern)
	case n.pattern != nil:
		o.set("pattern", n.pattern.String())
	}
	return o
}

// namePattern is protocol.Rule.Name as a pattern, as far as that goes: a
// topic level that does not begin with $.
const namePattern = `^([^$/+#\x00-\x1f\x7f-\x9f][^/+#\x00-\x1f\x7f-\x9f]*)?$`

// A boolNode decodes true and false.
type boolNode struct{}

func (boolNode) decode(d *decoder, v reflect.Value) {
	if d.expect(aBoolean) {
		v.SetBool(string(d.literal()) == "true")
	}
}

func (boolNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendBool(dst, v.Bool()), nil
}

func (boolNode) schema() *object { return typed("boolean") }
