package tools

import (
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// takesNull reports whether the node accepts null.
func (n *node) takesNull() bool { return n == nil || n.nullable || n.kind == anyKind }

// value reads a value and coerces it to the type of the node.
func (p *parser) value(n *node) (any, bool) {
	if n == nil {
		n = &node{}
	}
	if p.word("null") && n.takesNull() {
		p.pos += len("null")
		p.out = append(p.out, "null"...)
		return nil, true
	}
	switch p.peek() {
	case '{':
		return p.objectValue(n)
	case '[':
		return p.arrayValue(n)
	case '"':
		return p.stringValue(n)
	}
	return p.literalValue(n)
}

// objectValue reads an object as a value of the node.
func (p *parser) objectValue(n *node) (any, bool) {
	switch {
	case n.kind == objectKind || n.kind == anyKind:
		return p.members(n)
	case n.kind == listKind && n.wrap:
		return p.wrapped(n)
	}
	return p.otherwise(n)
}

// arrayValue reads an array as a value of the node.
func (p *parser) arrayValue(n *node) (any, bool) {
	if n.kind != listKind && n.kind != anyKind {
		return p.otherwise(n)
	}
	list := make([]any, 0, 4)
	p.out = append(p.out, '[')
	ok := p.array(func() bool {
		p.separate()
		v, ok := p.value(n.items)
		list = append(list, v)
		return ok
	})
	p.out = append(p.out, ']')
	return list, ok
}

// wrapped reads a single value as a list of one.
func (p *parser) wrapped(n *node) (any, bool) {
	p.note(noteWrapped)
	p.out = append(p.out, '[')
	v, ok := p.value(n.items)
	p.out = append(p.out, ']')
	return []any{v}, ok
}

// members reads an object.
func (p *parser) members(n *node) (any, bool) {
	all := make(map[string]any)
	p.out = append(p.out, '{')
	ok := p.object(&n.members, func(name string) bool {
		i, known := n.members.find(name)
		value := n.rest
		switch {
		case known:
			value = n.members.list[i].node
		case !n.open && n.kind == objectKind:
			p.note(noteUnknown + p.at + "." + name)
			return p.skip()
		}
		if known && !n.members.list[i].required && p.word("null") && !value.takesNull() {
			p.pos += len("null")
			return true
		}
		if _, twice := all[name]; twice {
			p.misfit("has the member %q twice", name)
		}
		p.key(name)
		v, ok := p.value(value)
		all[name] = v
		return ok
	})
	p.out = append(p.out, '}')
	return all, ok
}

// otherwise reads an object or an array as a value of another type. A string gets its
// JSON text.
func (p *parser) otherwise(n *node) (any, bool) {
	start := p.pos
	if !p.skip() {
		return nil, false
	}
	return p.literalFor(n, p.data[start:p.pos]), true
}

// literalValue reads a number, a boolean or null as a value of the node.
func (p *parser) literalValue(n *node) (any, bool) {
	if n.kind == listKind && n.wrap {
		return p.wrapped(n)
	}
	text, ok := p.literal()
	if !ok {
		return nil, false
	}
	return p.literalFor(n, text), true
}

// literalFor coerces the text of a literal to the type of the node.
func (p *parser) literalFor(n *node, text []byte) any {
	first := text[0]
	number := first == '-' || '0' <= first && first <= '9'
	boolean := first == 't' || first == 'f'
	switch {
	case n.kind == anyKind && boolean, n.kind == booleanKind && boolean:
		p.out = append(p.out, text...)
		return first == 't'
	case n.kind == anyKind && number, n.kind == numberKind && number:
		return p.number(text)
	case n.kind == integerKind && number:
		return p.integer(n, string(text))
	case n.kind == booleanKind && number:
		return p.booleanOf(text)
	case first == 'n':
		p.misfit("null is no value of %s", n.kind)
		return nil
	case n.kind == stringKind:
		p.note(noteLiteral)
		return p.token(n, string(text))
	}
	p.misfit("%.80s is not %s", text, n.kind)
	return nil
}

// stringValue reads a string as a value of the node.
func (p *parser) stringValue(n *node) (any, bool) {
	start := p.pos
	text, ok := p.stringToken()
	if !ok {
		return nil, false
	}
	switch n.kind {
	case anyKind:
		p.out = protocol.AppendString(p.out, text)
		return text, true
	case booleanKind:
		return p.booleanIn(text), true
	case integerKind, numberKind:
		return p.numberIn(n, text), true
	case objectKind:
		return p.again(n, text, '{'), true
	case listKind:
		if n.wrap && !p.holds(text, '[') {
			p.pos = start
			return p.wrapped(n)
		}
		return p.again(n, text, '['), true
	case timestampKind:
		return p.timestamp(text), true
	case uriKind:
		if u, err := url.Parse(text); err != nil || !u.IsAbs() {
			p.note(noteBadURI)
		}
		p.out = protocol.AppendString(p.out, text)
		return text, true
	default:
		return p.token(n, text), true
	}
}

// holds reports whether a text is JSON that begins with the bracket.
func (p *parser) holds(text string, bracket byte) bool {
	inner := parser{data: []byte(text), depth: p.depth}
	return inner.space() && inner.peek() == bracket && inner.skip() && inner.atEnd()
}

// again reads the JSON in a string as an object or a list.
func (p *parser) again(n *node, text string, bracket byte) any {
	if !p.holds(text, bracket) {
		p.misfit("%.80q is not %s", text, n.kind)
		return nil
	}
	p.note(noteStringParsed)
	data, pos := p.data, p.pos
	p.data, p.pos = []byte(text), 0
	p.space()
	v, ok := p.value(n)
	if !ok { // nested too deeply, together with the enclosing arguments
		p.misfit("is %s", p.wrong)
		p.wrong = ""
	}
	p.data, p.pos = data, pos
	return v
}

// token accepts a text, converted to an allowed token if there are tokens.
func (p *parser) token(n *node, text string) any {
	token, ok := n.tokens.find(text)
	if !ok && len(text) > 1 && text[0] == '"' { // written as a string twice
		var inner string
		if json.Unmarshal([]byte(text), &inner) == nil {
			token, ok = n.tokens.find(inner)
		}
	}
	if !ok {
		token, ok = n.tokens.find(strings.TrimSpace(text))
	}
	if !ok {
		p.misfit("%.80q is none of %s", text, n.tokens.String())
		return nil
	}
	if token != text {
		p.note(noteEnumCase)
	}
	p.out = protocol.AppendString(p.out, token)
	return token
}

// booleanOf converts 0 or 1 to a boolean.
func (p *parser) booleanOf(text []byte) any {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != 0 && f != 1 {
		p.misfit("%.80s is not a boolean", text)
		return nil
	}
	p.note(noteNumberToBoolean)
	p.out = strconv.AppendBool(p.out, f == 1)
	return f == 1
}

func (p *parser) booleanIn(text string) any {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true":
		p.note(noteStringToBoolean)
		p.out = append(p.out, "true"...)
		return true
	case "false":
		p.note(noteStringToBoolean)
		p.out = append(p.out, "false"...)
		return false
	}
	p.misfit("%.80q is not a boolean", text)
	return nil
}

// number accepts a number, and writes it unchanged.
func (p *parser) number(text []byte) any {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !finite(f) {
		p.misfit("%.80s is too large", text)
		return nil
	}
	p.out = append(p.out, text...)
	return f
}

// numberIn converts a string to a number.
func (p *parser) numberIn(n *node, text string) any {
	digits := strings.TrimPrefix(strings.TrimSpace(text), "+")
	if digits == "" || numberLength([]byte(digits)) != len(digits) {
		p.misfit("%.80q is not %s", text, n.kind)
		return nil
	}
	if n.kind == integerKind {
		p.note(noteStringToInteger)
		return p.integer(n, digits)
	}
	p.note(noteStringToNumber)
	return p.number([]byte(digits))
}

// integer accepts a number, truncated to an integer.
func (p *parser) integer(n *node, text string) any {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < -1<<63 || f >= 1<<63 {
			p.misfit("%.80s is not an integer of 64 bits", text)
			return nil
		}
		if f != math.Trunc(f) {
			p.note(noteTruncated)
		} else if !strings.ContainsAny(text, ".eE") { // digits that do not fit were rounded
			p.misfit("%.80s is not an integer of 64 bits", text)
			return nil
		}
		i = int64(f)
	}
	if n.tokens.exact != nil {
		if _, ok := n.tokens.find(strconv.FormatInt(i, 10)); !ok {
			p.misfit("%d is none of %s", i, n.tokens.String())
			return nil
		}
	}
	p.out = strconv.AppendInt(p.out, i, 10)
	return i
}

// timestamp accepts a point in time, and writes it unchanged.
func (p *parser) timestamp(text string) any {
	if !isTimestamp(text) {
		p.misfit("%.80q is not an ISO 8601 timestamp", text)
		return nil
	}
	p.out = protocol.AppendString(p.out, text)
	return text
}
