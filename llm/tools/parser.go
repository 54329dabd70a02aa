package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// A parser reads arguments in one pass: it checks that they are JSON, except for
// comments and superfluous commas, coerces values to the declared types, and writes
// them as valid JSON.
//
// A method that returns false has recorded in wrong that the text is not JSON, and
// reading must stop. A value that is JSON but not of its type is recorded in fault, and
// reading continues.
type parser struct {
	Parsed
	data   []byte
	most   int // bytes that data may have
	pos    int
	depth  int
	out    []byte // the value so far, as JSON
	result map[string]any

	at    string // the parameter being read
	fault string // the fault of the value
	wrong string // the error of a text that is not JSON, with its place

	strict bool
	twice  bool // a parameter was repeated
	seen   []bool
	few    [32]bool // room for seen
}

func (p *parser) note(text string) {
	p.Warnings = append(p.Warnings, Warning{Parameter: p.at, Text: text})
}

// misfit records the first fault of the parameter.
func (p *parser) misfit(format string, args ...any) {
	if p.fault == "" {
		p.fault = p.at + ": " + fmt.Sprintf(format, args...)
	}
}

// unexpected records that the text is not JSON at this place, unless an error was
// recorded. It returns false.
func (p *parser) unexpected() bool {
	switch {
	case p.wrong != "":
	case p.pos >= len(p.data):
		p.wrong = fmt.Sprintf("unexpected end at offset %d", len(p.data))
	default:
		r, _ := utf8.DecodeRune(p.data[p.pos:])
		p.wrong = fmt.Sprintf("unexpected %q at offset %d", r, p.pos)
	}
	return false
}

// peek is the next byte, NUL at the end; a NUL in the text is never valid either.
func (p *parser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

// space skips white space and comments.
func (p *parser) space() bool {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		case '/':
			if !p.comment() {
				return false
			}
		default:
			return true
		}
	}
	return true
}

func (p *parser) comment() bool {
	rest := p.data[p.pos:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			p.pos += end + 1
		} else {
			p.pos = len(p.data)
		}
		return true
	case bytes.HasPrefix(rest, []byte("/*")):
		end := bytes.Index(rest[2:], []byte("*/"))
		if end < 0 {
			p.pos = len(p.data)
			return p.unexpected()
		}
		p.pos += 2 + end + 2
		return true
	}
	return p.unexpected()
}

// atEnd reports whether only white space and comments follow.
func (p *parser) atEnd() bool { return p.space() && p.pos == len(p.data) }

// word reports whether a literal is next. It does not consume it.
func (p *parser) word(literal string) bool {
	end := p.pos + len(literal)
	return end <= len(p.data) && string(p.data[p.pos:end]) == literal
}

// enter consumes an opening bracket and goes one level deeper.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxDepth {
		p.wrong = fmt.Sprintf("nested more than %d levels deep", maxDepth)
		return false
	}
	p.pos++ // the bracket
	return true
}

// object reads an object. It calls read at the beginning of each member's value, with
// the name of the member; for a known member that is the string of its declaration.
func (p *parser) object(known *members, read func(name string) bool) bool {
	if !p.enter() {
		return false
	}
	for {
		if !p.space() {
			return false
		}
		if p.peek() == '}' {
			p.pos++
			p.depth--
			return true
		}
		name, ok := p.name(known)
		if !ok || !p.space() {
			return false
		}
		if p.peek() != ':' {
			return p.unexpected()
		}
		p.pos++
		if !p.space() || !read(name) || !p.comma('}') {
			return false
		}
	}
}

// name reads the name of a member. It allocates no string for a known one.
func (p *parser) name(known *members) (string, bool) {
	if known != nil && p.peek() == '"' {
		rest := p.data[p.pos+1:]
		if end := bytes.IndexByte(rest, '"'); end >= 0 {
			if i, ok := known.byName[string(rest[:end])]; ok && bytes.IndexByte(rest[:end], '\\') < 0 {
				p.pos += end + 2
				return known.list[i].name, true
			}
		}
	}
	return p.stringToken()
}

// array reads an array. It calls read at the beginning of each element.
func (p *parser) array(read func() bool) bool {
	if !p.enter() {
		return false
	}
	for {
		if !p.space() {
			return false
		}
		if p.peek() == ']' {
			p.pos++
			p.depth--
			return true
		}
		if !read() || !p.comma(']') {
			return false
		}
	}
}

// comma consumes a comma. It is optional before the closing bracket end.
func (p *parser) comma(end byte) bool {
	if !p.space() {
		return false
	}
	switch p.peek() {
	case ',':
		p.pos++
		return true
	case end:
		return true
	}
	return p.unexpected()
}

// skip reads any value and discards it.
func (p *parser) skip() bool {
	switch c := p.peek(); c {
	case '{':
		return p.object(nil, func(string) bool { return p.skip() })
	case '[':
		return p.array(p.skip)
	case '"':
		_, ok := p.stringToken()
		return ok
	default:
		_, ok := p.literal()
		return ok
	}
}

// literal reads a number, true, false or null.
func (p *parser) literal() (text []byte, ok bool) {
	for _, word := range [...]string{"true", "false", "null"} {
		if p.word(word) {
			start := p.pos
			p.pos += len(word)
			return p.data[start:p.pos], true
		}
	}
	end := p.pos + numberLength(p.data[p.pos:])
	if end == p.pos {
		return nil, p.unexpected()
	}
	text, p.pos = p.data[p.pos:end], end
	return text, true
}

// numberLength is the length of the JSON number at the beginning of a text, in bytes.
func numberLength(text []byte) int {
	digits := func(i int) int {
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		return i
	}
	i := 0
	if i < len(text) && text[i] == '-' {
		i++
	}
	whole := digits(i)
	if whole == i || text[i] == '0' && whole > i+1 {
		return 0
	}
	i = whole
	if i < len(text) && text[i] == '.' {
		end := digits(i + 1)
		if end == i+1 {
			return 0
		}
		i = end
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		end := digits(j)
		if end == j {
			return 0
		}
		i = end
	}
	return i
}

// stringToken reads a string.
func (p *parser) stringToken() (text string, ok bool) {
	if p.peek() != '"' {
		return "", p.unexpected()
	}
	start := p.pos + 1
	plain := true
	for i := start; i < len(p.data); i++ {
		switch c := p.data[i]; {
		case c == '"':
			p.pos = i + 1
			if plain {
				return string(p.data[start:i]), true
			}
			return p.unquote(start, i)
		case c == '\\':
			plain = false
			i++
		case c < 0x20, c >= utf8.RuneSelf:
			plain = false
		}
	}
	p.pos = len(p.data)
	return "", p.unexpected()
}

// unquote decodes a quoted text that is not plain ASCII.
func (p *parser) unquote(start, end int) (text string, ok bool) {
	inner := p.data[start:end]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) && !bytes.ContainsFunc(inner, isControl) {
		return string(inner), true
	}
	quoted := make([]byte, 0, len(inner)+2)
	quoted = append(quoted, '"')
	odd := false
	for _, c := range inner {
		if c < 0x20 {
			odd = true
			quoted = fmt.Appendf(quoted, `\u%04x`, c)
			continue
		}
		quoted = append(quoted, c)
	}
	quoted = append(quoted, '"')
	if err := json.Unmarshal(quoted, &text); err != nil {
		p.wrong = fmt.Sprintf("bad escape in the string at offset %d", start-1)
		return "", false
	}
	if odd {
		p.note(noteControl)
	}
	return text, true
}

func isControl(r rune) bool { return r < 0x20 }

// key writes the name of a member.
func (p *parser) key(name string) {
	p.separate()
	p.out = append(protocol.AppendString(p.out, name), ':')
}

// separate writes a comma unless it is the first of its object or array.
func (p *parser) separate() {
	if last := p.out[len(p.out)-1]; last != '{' && last != '[' {
		p.out = append(p.out, ',')
	}
}

// finite reports whether a number can be written as JSON.
func finite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }
