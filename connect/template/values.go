package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxJSONDepth bounds the nesting of JSON that is read.
const maxJSONDepth = 32

// FromJSON reads a JSON text to the values of templates.
func FromJSON(text []byte) (any, error) {
	if len(text) > 1<<20 {
		return nil, errors.New("the JSON is too long")
	}
	if deeperThan(text, maxJSONDepth) {
		return nil, errors.New("the JSON is nested too deep")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("it is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	return numbers(v), nil
}

// deeperThan reports whether brackets nest deeper than most. It takes any text,
// JSON or not.
func deeperThan(text []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// numbers has whole numbers as int64 and others as float64.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// maxJSON bounds the JSON that is written, in bytes of its texts and in items.
const maxJSON = 1 << 20

// ToJSON writes a value as JSON.
func ToJSON(v any) (string, error) { return writeJSON(v, maxJSON) }

// writeJSON is [ToJSON] of at most so many bytes.
func writeJSON(v any, most int) (string, error) {
	if v == undefined {
		return "", fmt.Errorf("the value %w", ErrUndefined)
	}
	if spared(v, most) < 0 {
		return "", errors.New("the JSON is too long")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", errors.New("the value cannot be JSON")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// spared is the rest of room, in bytes, when a value is written; negative if
// it does not fit. It stops there: lists that hold one another twice, set after
// set, are long beyond measure when they are written out.
func spared(v any, room int) int {
	switch v := v.(type) {
	case string:
		return room - len(v) - 2
	case []any:
		for _, item := range v {
			if room = spared(item, room-1); room < 0 {
				break
			}
		}
	case map[string]any:
		for name, item := range v {
			if room = spared(item, room-len(name)-4); room < 0 {
				break
			}
		}
	}
	return room - 2
}

// Text is a value as text: a text as it is, anything else as JSON.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	s, _ := ToJSON(v)
	return s
}

// show is a value as text, as Python writes it.
func show(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case nil:
		return "None", nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e16 {
			return strconv.FormatFloat(v, 'f', 1, 64), nil
		}
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case missing:
		return "", fmt.Errorf("a value %w", ErrUndefined)
	}
	return "", fmt.Errorf("%s is shown by tojson only", kindOf(v))
}

// kindOf is the sort of a value, for people.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case bool:
		return "a truth value"
	case int64, float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "what is not there"
}

// MarshalJSON implements [json.Marshaler]: undefined is an error, as JSON cannot
// express it.
func (missing) MarshalJSON() ([]byte, error) { return nil, ErrUndefined }
