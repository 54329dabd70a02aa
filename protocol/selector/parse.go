package selector

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of a selector.
const (
	MaxLength       = 2048 // bytes
	MaxRequirements = 32
	MaxValues       = 64 // of one list
)

// An Error is the fault of a selector, and its place.
type Error struct {
	At     int // characters before it
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at character %d", e.Reason, e.At+1) }

// Parse reads a selector. Its error is an [*Error].
func Parse(text string) (*Selector, error) {
	if len(text) > MaxLength {
		return nil, &Error{MaxLength, fmt.Sprintf("is longer than %d bytes", MaxLength)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{0, "is not UTF-8"}
	}
	p := &parser{text: text}
	s := &Selector{}
	for {
		if p.space(); p.rest() == "" {
			return nil, p.fail(p.expected("a key"))
		}
		if len(s.requirements) == MaxRequirements {
			return nil, p.fail(fmt.Sprintf("has more than %d requirements", MaxRequirements))
		}
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		s.requirements = append(s.requirements, r)
		if p.space(); p.rest() == "" {
			return s, nil
		}
		if !p.take(",") {
			return nil, p.fail(p.expected("a comma or the end"))
		}
	}
}

// Check returns the error of a selector in a parameter, nil for a good one.
func Check(param, text string) error {
	_, err := ParseParam(param, text)
	return err
}

// ParseParam reads a selector in a parameter, which the error names.
func ParseParam(param, text string) (*Selector, error) {
	s, err := Parse(text)
	if e, ok := err.(*Error); ok { //nolint:errorlint // Parse wraps nothing
		return nil, protocol.InvalidParam(param, e.Error()).With("position", e.At+1)
	}
	return s, nil
}

type parser struct {
	text string
	at   int // bytes
}

func (p *parser) rest() string { return p.text[p.at:] }

func (p *parser) fail(reason string) error {
	return &Error{utf8.RuneCountInString(p.text[:p.at]), reason}
}

// expected is the reason of an error: the expected text, and the actual one.
func (p *parser) expected(what string) string {
	if p.rest() == "" {
		return "needs " + what + ", and ends"
	}
	r, _ := utf8.DecodeRuneInString(p.rest())
	return fmt.Sprintf("needs %s, not %q", what, r)
}

func (p *parser) space() { p.at += len(p.rest()) - len(strings.TrimLeft(p.rest(), " \t\n\r")) }

func (p *parser) take(token string) bool {
	if !strings.HasPrefix(p.rest(), token) {
		return false
	}
	p.at += len(token)
	return true
}

// word takes the longest run of characters of a kind.
func (p *parser) word(of func(byte) bool) string {
	end := 0
	for rest := p.rest(); end < len(rest) && of(rest[end]); {
		end++
	}
	word := p.rest()[:end]
	p.at += end
	return word
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func inKey(c byte) bool { return letter(c) || c == '.' }

func inValue(c byte) bool { return letter(c) || strings.IndexByte(".:/+@~", c) >= 0 }

func (p *parser) requirement() (Requirement, error) {
	lacks := p.take("!")
	p.space()
	key, err := p.key()
	if err != nil {
		return Requirement{}, err
	}
	r := Requirement{Key: key}
	if lacks {
		r.Op = Lacks
		return r, nil
	}
	p.space()
	if r.Op = p.operator(); r.Op == Exists {
		return r, nil
	}
	p.space()
	if r.Op == In || r.Op == NotIn {
		r.Values, err = p.list()
		return r, err
	}
	start := p.at
	value, err := p.value()
	if err != nil {
		return r, err
	}
	r.Values = []string{value}
	if _, ok := compare(value, value, key.Kind == State); !ok && r.Op >= Less {
		p.at = start
		return r, p.fail(fmt.Sprintf("needs a number or a version behind %s", signs[r.Op]))
	}
	return r, nil
}

// operators in an order in which none is the beginning of a later one.
var operators = []struct {
	sign string
	op   Op
}{{"==", Equal}, {"=", Equal}, {"!=", NotEqual}, {"<=", AtMost}, {"<", Less}, {">=", AtLeast}, {">", More}}

// operator takes an operator, Exists if there is none.
func (p *parser) operator() Op {
	for _, o := range operators {
		if p.take(o.sign) {
			return o.op
		}
	}
	start := p.at
	switch p.word(letter) {
	case "in":
		return In
	case "notin":
		return NotIn
	}
	p.at = start
	return Exists
}

func (p *parser) key() (Key, error) {
	start := p.at
	word := p.word(inKey)
	if word == "" {
		return Key{}, p.fail(p.expected("a key"))
	}
	kind, name, reason := keyOf(word)
	if reason != "" {
		p.at = start
		return Key{}, p.fail(reason)
	}
	return Key{kind, name}, nil
}

// keyOf tells tags, fields and state apart.
func keyOf(word string) (kind Kind, name, reason string) {
	first, rest, dotted := strings.Cut(word, ".")
	if !dotted {
		return Tag, word, CheckTag(word)
	}
	switch first {
	case "state":
		if rest == "" || strings.Contains("."+rest+".", "..") {
			return State, rest, fmt.Sprintf("has the key %q, which names no state", word)
		}
		return State, rest, ""
	case "agent", "skill":
		kind = Agent
		if first == "skill" {
			kind = Skill
		}
		if slices.Contains(fields[kind], rest) {
			return kind, rest, ""
		}
		return kind, rest, fmt.Sprintf("has the unknown key %q; there are %s.%s", word, first, strings.Join(fields[kind], ", "+first+"."))
	}
	return Tag, word, fmt.Sprintf("has the unknown key %q; keys with a dot begin with agent., skill. or state.", word)
}

func (p *parser) list() ([]string, error) {
	if !p.take("(") {
		return nil, p.fail(p.expected("values in brackets"))
	}
	var values []string
	for {
		if len(values) == MaxValues {
			return nil, p.fail(fmt.Sprintf("has more than %d values in a list", MaxValues))
		}
		p.space()
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		p.space()
		if p.take(")") {
			return values, nil
		}
		if !p.take(",") {
			return nil, p.fail(p.expected("a comma or a closing bracket"))
		}
	}
}

// value takes a plain word, or anything in quotes.
func (p *parser) value() (string, error) {
	if p.take(`"`) {
		return p.quoted()
	}
	word := p.word(inValue)
	if word == "" {
		return "", p.fail(p.expected("a value (in quotes if it has other characters than letters, digits and ._-:/+@~)"))
	}
	return word, nil
}

func (p *parser) quoted() (string, error) {
	var value strings.Builder
	for {
		r, size := utf8.DecodeRuneInString(p.rest())
		switch {
		case size == 0:
			return "", p.fail("needs a closing quote, and ends")
		case unicode.IsControl(r):
			return "", p.fail("has a control character")
		case r == '"':
			p.at += size
			return value.String(), nil
		case r == '\\':
			p.at += size
			if r, size = utf8.DecodeRuneInString(p.rest()); r != '"' && r != '\\' {
				return "", p.fail(p.expected(`a quote or a backslash behind \`))
			}
		}
		value.WriteRune(r)
		p.at += size
	}
}

// quoted is a value as it is written.
func quoted(v string) string {
	for i := range len(v) {
		if !inValue(v[i]) {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
		}
	}
	if v == "" {
		return `""`
	}
	return v
}
