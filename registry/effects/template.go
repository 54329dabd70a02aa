package effects

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// Bounds of keys.
const (
	maxFields     = 8
	maxValueBytes = 256
	maxNumeral    = 32 // characters of an integer that is written with a point or an exponent
)

// A Template is an effect key as it is declared: text with params in braces.
type Template struct {
	text   string
	pieces []piece
}

// A piece of a template is literal text or, with a field, the value of a param.
type piece struct{ literal, field string }

var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// ParseTemplate reads an effect key. The error names the fault and its place.
func ParseTemplate(text string) (Template, error) {
	t := Template{text: text}
	for rest := text; rest != ""; {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			t.pieces = append(t.pieces, piece{literal: rest})
			break
		}
		at := len(text) - len(rest) + open
		if rest[open] == '}' {
			return Template{}, fmt.Errorf("has a } without { at character %d", at+1)
		}
		if open > 0 {
			t.pieces = append(t.pieces, piece{literal: rest[:open]})
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			return Template{}, fmt.Errorf("has a { without } at character %d", at+1)
		}
		name := rest[open+1 : open+end]
		if !fieldName.MatchString(name) {
			return Template{}, fmt.Errorf("has {%s} at character %d, which is no name of a param", name, at+1)
		}
		t.pieces = append(t.pieces, piece{field: name})
		rest = rest[open+end+1:]
	}
	if n := len(t.Fields()); n > maxFields {
		return Template{}, fmt.Errorf("has %d params, at most %d are allowed", n, maxFields)
	}
	return t, nil
}

// Fields are the params that the template names, in their order.
func (t Template) Fields() (names []string) {
	for _, p := range t.pieces {
		if p.field != "" {
			names = append(names, p.field)
		}
	}
	return names
}

// Key is the key that a template makes of the params of a call. Its text is for people.
// The identity is the same for the same values alone, however they are written.
func (t Template) Key(params json.RawMessage) (text, identity string, err error) {
	members, err := membersOf(params)
	if err != nil {
		return "", "", err
	}
	sum, readable := sha256.New(), strings.Builder{}
	add := func(part string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = sum.Write(size[:])
		_, _ = sum.Write([]byte(part))
	}
	add(t.text)
	for _, p := range t.pieces {
		if p.field == "" {
			readable.WriteString(p.literal)
			continue
		}
		value, err := scalar(members[p.field])
		if err != nil {
			return "", "", fmt.Errorf("%s %w", p.field, err)
		}
		add(value)
		readable.WriteString(value)
	}
	return readable.String(), hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

func membersOf(object json.RawMessage) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, fmt.Errorf("must be an object")
	}
	return members, nil
}

// scalar is the text of a value: the same for values that are equal in JSON.
// The schema has checked its type, so texts of different types never meet.
func scalar(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	var text string
	switch {
	case len(raw) == 0:
		return "", fmt.Errorf("is missing, and the effect key needs it")
	case raw[0] == '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", fmt.Errorf("is no string")
		}
	case raw[0] == 't' || raw[0] == 'f':
		text = string(raw)
	default:
		var err error
		if text, err = integer(string(raw)); err != nil {
			return "", err
		}
	}
	if len(text) > maxValueBytes {
		return "", fmt.Errorf("has %d bytes, and an effect key takes at most %d", len(text), maxValueBytes)
	}
	return text, nil
}

var plainInteger = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// integer is the one way to write a whole number, which may come as 3e4 or -0.
func integer(raw string) (string, error) {
	if plainInteger.MatchString(raw) {
		return raw, nil
	}
	if _, exponent, found := strings.Cut(strings.ToLower(raw), "e"); len(raw) > maxNumeral || found && len(exponent) > 3 {
		return "", fmt.Errorf("is no integer that an effect key can take")
	}
	value, ok := new(big.Rat).SetString(raw)
	if !ok || !value.IsInt() {
		return "", fmt.Errorf("must be a string, an integer or a boolean, to be part of an effect key")
	}
	return value.Num().String(), nil
}
