package a2a

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A violation is a field of a request that is not as it should be.
type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// A reader reads the fields of one message of Protocol Buffers in its JSON form: names
// in lowerCamelCase or as in the .proto file, enums by name or number, numbers as such
// or in quotes, null for a missing field. Unrequested fields are ignored. Faults are
// collected for all readers of a request.
type reader struct {
	path   string
	fields map[string]json.RawMessage
	wrong  *[]violation
}

// maxViolations is the greatest number of faults in one error.
const maxViolations = 16

// read begins to read a message. It reports false if that is no object.
func read(text json.RawMessage) (*reader, bool) {
	r := &reader{wrong: new([]violation)}
	if len(bytes.TrimSpace(text)) == 0 {
		text = json.RawMessage("{}")
	}
	if err := json.Unmarshal(text, &r.fields); err != nil || r.fields == nil {
		return nil, false
	}
	return r, true
}

// at is the path of a field.
func (r *reader) at(name string) string {
	if r.path == "" {
		return name
	}
	return r.path + "." + name
}

// refuse notes the fault of a field.
func (r *reader) refuse(name, format string, args ...any) {
	if len(*r.wrong) < maxViolations {
		*r.wrong = append(*r.wrong, violation{r.at(name), fmt.Sprintf(format, args...)})
	}
}

// fault is the error with all faults, nil for none.
func (r *reader) fault() error {
	if len(*r.wrong) == 0 {
		return nil
	}
	first := (*r.wrong)[0]
	return &Error{kind: invalidParams, Message: "Invalid parameters: " + first.Field + " " + first.Description, violations: *r.wrong}
}

// raw is the value of a field, nil if it is absent or null.
func (r *reader) raw(name string) json.RawMessage {
	value, ok := r.fields[name]
	if snake := snakeOf(name); snake != name {
		other, also := r.fields[snake]
		if ok && also {
			r.refuse(name, "is there twice, as %s too", snake)
		}
		if also {
			value = other
		}
	}
	if bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
		return nil
	}
	return value
}

// snakeOf is the name of a field as the .proto file has it.
func snakeOf(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// text is a text of at most so many bytes.
func (r *reader) text(name string, most int) string {
	s, _ := r.optionalText(name, most)
	return s
}

func (r *reader) optionalText(name string, most int) (string, bool) {
	value := r.raw(name)
	if value == nil {
		return "", false
	}
	var s string
	switch err := json.Unmarshal(value, &s); {
	case err != nil:
		r.refuse(name, "must be a string")
	case !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError):
		r.refuse(name, "is not UTF-8")
	case len(s) > most:
		r.refuse(name, "may have %d bytes", most)
	}
	return s, true
}

// needed is a text that must not be missing.
func (r *reader) needed(name string, most int) string {
	s := r.text(name, most)
	if s == "" {
		r.refuse(name, "is required")
	}
	return s
}

// flag is a boolean.
func (r *reader) flag(name string) (b bool) {
	if value := r.raw(name); value != nil && json.Unmarshal(value, &b) != nil {
		r.refuse(name, "must be true or false")
	}
	return b
}

// number is an int32 that may be missing.
func (r *reader) number(name string) *int {
	value := r.raw(name)
	if value == nil {
		return nil
	}
	text := string(bytes.TrimSpace(value))
	if quoted := ""; json.Unmarshal(value, &quoted) == nil {
		text = quoted
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxInt32 || strings.TrimSpace(text) != text {
		r.refuse(name, "must be a whole number of 32 bits")
		return nil
	}
	n := int(f)
	return &n
}

// enum reads an enum: one of the names, or the number of its place. It is "" for a
// missing value and for the first name, which is the unspecified one.
func (r *reader) enum(name string, names []string) string {
	value := r.raw(name)
	if value == nil {
		return ""
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || n < 0 || n >= len(names) {
			r.refuse(name, "must be one of %s", strings.Join(names[1:], ", "))
			return ""
		}
		s = names[n]
	}
	for i, known := range names {
		if s == known {
			if i == 0 {
				return ""
			}
			return s
		}
	}
	r.refuse(name, "must be one of %s", strings.Join(names[1:], ", "))
	return ""
}

// time is a timestamp, nil if it is missing.
func (r *reader) time(name string) *time.Time {
	s, there := r.optionalText(name, 64)
	if !there {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || strings.ToUpper(s) != s || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		r.refuse(name, "must be a timestamp such as 2026-01-31T12:00:00.000Z")
		return nil
	}
	return &t
}

// structure is a JSON object that stays undecoded.
func (r *reader) structure(name string) json.RawMessage {
	value := bytes.TrimSpace(r.raw(name))
	if len(value) == 0 {
		return nil
	}
	if value[0] != '{' {
		r.refuse(name, "must be an object")
		return nil
	}
	return json.RawMessage(value)
}

// bytes is a value in base64, with the letters of either alphabet, padded or not.
func (r *reader) bytes(name string) []byte {
	s, there := r.optionalText(name, math.MaxInt)
	if !there {
		return nil
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		r.refuse(name, "must be base64")
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

// message is a message within this one, nil if it is missing.
func (r *reader) message(name string) *reader {
	value := r.raw(name)
	if value == nil {
		return nil
	}
	return r.within(name, value)
}

func (r *reader) within(name string, value json.RawMessage) *reader {
	inner := &reader{path: r.at(name), wrong: r.wrong}
	if err := json.Unmarshal(value, &inner.fields); err != nil || inner.fields == nil {
		r.refuse(name, "must be an object")
		return nil
	}
	return inner
}

// list are the values of a repeated field.
func (r *reader) list(name string, most int) []json.RawMessage {
	value := r.raw(name)
	if value == nil {
		return nil
	}
	var values []json.RawMessage
	if json.Unmarshal(value, &values) != nil {
		r.refuse(name, "must be an array")
	}
	if len(values) > most {
		r.refuse(name, "may have %d elements", most)
		return nil
	}
	return values
}

// texts are the texts of a repeated field.
func (r *reader) texts(name string, most, length int) []string {
	var list []string
	for i, value := range r.list(name, most) {
		var s *string
		if json.Unmarshal(value, &s) != nil || s == nil || len(*s) > length {
			r.refuse(fmt.Sprintf("%s[%d]", name, i), "must be a string of at most %d bytes", length)
			continue
		}
		list = append(list, *s)
	}
	return list
}

// messages are the messages of a repeated field.
func (r *reader) messages(name string, most int) []*reader {
	var list []*reader
	for i, value := range r.list(name, most) {
		if inner := r.within(fmt.Sprintf("%s[%d]", name, i), value); inner != nil {
			list = append(list, inner)
		}
	}
	return list
}
