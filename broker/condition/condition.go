// Package condition is the grammar of conditions on the user properties of messages,
// which stand behind the topic filter of a subscription: topic?location=hall&value>25.
package condition

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/broker/packet"
)

// Bounds of a condition, and of the work that one message makes for it.
const (
	Longest         = 1024 // bytes of a condition
	MostComparisons = 16   // in a condition
	MostProperties  = 64   // user properties of a message that are looked at, the first ones
)

// A Condition is a list of comparisons, all of which must hold for a message.
type Condition struct{ all []comparison }

type operator byte

const (
	equal operator = iota
	unequal
	less
	atMost
	more
	atLeast
)

// A comparison holds a user property against a value.
type comparison struct {
	key    string
	by     operator
	text   string // of equal and unequal
	number number // of the others
}

// Split takes a filter and the condition behind it apart, at the first question mark
// that is not in the name of a group: $share/what?/topic?a=1 is for topic. It is not
// ok for a filter without a condition.
func Split(filter string) (plain, text string, ok bool) {
	from := 0
	if rest, shared := strings.CutPrefix(filter, "$share/"); shared {
		from = len("$share/") + strings.IndexByte(rest, '/') + 1
	}
	at := strings.IndexByte(filter[from:], '?')
	if at < 0 {
		return filter, "", false
	}
	return filter[:from+at], filter[from+at+1:], true
}

// Parse reads a condition. Its errors quote the part that is wrong.
func Parse(text string) (*Condition, error) {
	if len(text) > Longest {
		return nil, fmt.Errorf("the condition has %d bytes, more than %d", len(text), Longest)
	}
	parts := strings.Split(text, "&")
	if len(parts) > MostComparisons {
		return nil, fmt.Errorf("the condition has %d comparisons, more than %d", len(parts), MostComparisons)
	}
	c := &Condition{all: make([]comparison, len(parts))}
	for i, part := range parts {
		if err := c.all[i].parse(strings.TrimSpace(part)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *comparison) parse(part string) error {
	at := strings.IndexAny(part, operators)
	if at < 0 {
		return fmt.Errorf("%q in the condition has none of the operators = != < <= > >=", part)
	}
	key := strings.TrimSpace(part[:at])
	by, rest, ok := cutOperator(part[at:])
	value := strings.TrimSpace(rest)
	switch {
	case !ok:
		return fmt.Errorf("%q in the condition has a ! without =", part)
	case key == "":
		return fmt.Errorf("%q in the condition names no user property", part)
	case value == "":
		return fmt.Errorf("%q in the condition has no value", part)
	case strings.ContainsAny(value[:1], operators):
		return fmt.Errorf("%q in the condition has two operators; a value begins with %%3D, %%21, %%3C or %%3E instead", part)
	}
	var err error
	if c.key, err = unescape(key); err != nil {
		return fmt.Errorf("%q in the condition: %w", part, err)
	}
	if value, err = unescape(value); err != nil {
		return fmt.Errorf("%q in the condition: %w", part, err)
	}
	if c.by = by; by == equal || by == unequal {
		c.text = value
		return nil
	}
	if c.number, ok = parseNumber(value); !ok {
		return fmt.Errorf("%q in the condition compares with %q, which is no number", part, value)
	}
	return nil
}

// operators are the characters that end the name of a user property.
const operators = "=!<>"

// cutOperator takes the operator that a text begins with off.
func cutOperator(text string) (by operator, rest string, ok bool) {
	orEqual := len(text) > 1 && text[1] == '='
	switch {
	case text[0] == '=':
		return equal, text[1:], true
	case text[0] == '!':
		return unequal, strings.TrimPrefix(text[1:], "="), orEqual
	case text[0] == '<' && orEqual:
		return atMost, text[2:], true
	case text[0] == '<':
		return less, text[1:], true
	case orEqual:
		return atLeast, text[2:], true
	}
	return more, text[1:], true
}

var errEscape = errors.New("a % is followed by two hexadecimal digits, and is itself %25")

// unescape puts the characters in place of their percent-encoding.
func unescape(text string) (string, error) {
	if strings.IndexByte(text, '%') < 0 {
		return strings.Clone(text), nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", errEscape
		}
		v, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", errEscape
		}
		b.WriteByte(byte(v))
		i += 2
	}
	return b.String(), nil
}

// Comparisons is the number of comparisons of the condition, the measure of its work.
func (c *Condition) Comparisons() int { return len(c.all) }

// Properties are the user properties of a message as conditions look at them. However many
// conditions there are, a value is read as a number once.
type Properties struct {
	users  []packet.UserProperty
	values []value
}

// A value is that of a user property, as a number.
type value struct {
	number
	read, ok bool
}

// Of makes p those of another message, which must stay as they are while they are used.
func (p *Properties) Of(users []packet.UserProperty) {
	p.users = users[:min(len(users), MostProperties)]
	p.values = append(p.values[:0], make([]value, len(p.users))...)
}

// number is a value as a number, if it is one.
func (p *Properties) number(i int) (n number, ok bool) {
	v := &p.values[i]
	if !v.read {
		v.read = true
		if text := bytes.TrimSpace(p.users[i].Value); len(text) <= longestNumber {
			v.number, v.ok = parseNumber(string(text))
		}
	}
	return v.number, v.ok
}

// Holds reports whether a message with these user properties fits the condition. Of
// several with one name, any may fit; a message without the property only fits !=.
func (c *Condition) Holds(p *Properties) bool {
	for i := range c.all {
		if !c.all[i].holds(p) {
			return false
		}
	}
	return true
}

func (c *comparison) holds(p *Properties) bool {
	for i := range p.users {
		if string(p.users[i].Key) == c.key && c.fits(p, i) {
			return c.by != unequal
		}
	}
	return c.by == unequal
}

// fits reports whether a value is what the comparison looks for; for unequal, whether
// it is equal.
func (c *comparison) fits(p *Properties, i int) bool {
	if c.by == equal || c.by == unequal {
		return string(p.users[i].Value) == c.text
	}
	n, ok := p.number(i)
	if !ok {
		return false
	}
	switch order := n.compare(c.number); c.by {
	case less:
		return order < 0
	case atMost:
		return order <= 0
	case more:
		return order > 0
	default:
		return order >= 0
	}
}
