package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// decode reads a JSON value as the validator wants it: objects as maps, arrays
// as slices. Numbers become exact where that is cheap and float64 where it is
// not: the validator computes with rationals, and 1e999999 as a rational has a
// million digits.
//
// It is for values that were checked before (protocol.CheckJSON or
// json.Compact). On others it may be lenient, but never panics.
func decode(text []byte) (any, error) {
	p := parser{text: text}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.skip(); p.at < len(p.text) {
		return nil, errNotJSON
	}
	return v, nil
}

var errNotJSON = errors.New("is not JSON")

// maxNesting bounds the recursion of the parser. Its input was bounded before, to
// less.
const maxNesting = 1024

type parser struct {
	text []byte
	at   int
}

// skip moves to the next byte that is not white space.
func (p *parser) skip() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// next takes the next byte that is not white space, 0 at the end.
func (p *parser) next() byte {
	p.skip()
	if p.at == len(p.text) {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

func (p *parser) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, errors.New("is nested too deeply")
	}
	switch c := p.next(); c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.string()
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	case 0:
		return nil, errNotJSON
	}
	p.at--
	return p.number()
}

// word reads the rest of a word whose first byte was taken.
func (p *parser) word(word string) error {
	rest, ok := bytes.CutPrefix(p.text[p.at-1:], []byte(word))
	if !ok {
		return errNotJSON
	}
	p.at = len(p.text) - len(rest)
	return nil
}

func (p *parser) object(depth int) (any, error) {
	members := make(map[string]any)
	for c := p.next(); c != '}'; c = p.next() {
		if len(members) > 0 {
			if c != ',' {
				return nil, errNotJSON
			}
			c = p.next()
		}
		if c != '"' {
			return nil, errNotJSON
		}
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, errNotJSON
		}
		if members[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func (p *parser) array(depth int) (any, error) {
	items := []any{}
	for c := p.next(); c != ']'; c = p.next() {
		if len(items) == 0 {
			p.at--
			if c == 0 {
				return nil, errNotJSON
			}
		} else if c != ',' {
			return nil, errNotJSON
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// string reads the rest of a string whose opening quote was taken.
func (p *parser) string() (string, error) {
	from := p.at
	for escaped := false; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			escaped = true
			p.at++
		case '"':
			p.at++
			if !escaped {
				return string(p.text[from : p.at-1]), nil
			}
			var s string
			if json.Unmarshal(p.text[from-1:p.at], &s) != nil {
				return "", errNotJSON
			}
			return s, nil
		}
	}
	return "", errNotJSON
}

// maxDigits bounds the length of a number that is kept as it is.
const maxDigits = 32

func (p *parser) number() (any, error) {
	from := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.0123456789Ee", p.text[p.at]) >= 0 {
		p.at++
	}
	text := string(p.text[from:p.at])
	if len(text) <= maxDigits && !strings.ContainsAny(text, "eE") {
		if !json.Valid([]byte(text)) {
			return nil, errNotJSON
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, errors.New("holds a number that is out of range")
	}
	return f, nil
}

// depth counts the levels of nested objects and arrays.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	case []any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	default:
		return 0
	}
	return deepest + 1
}
