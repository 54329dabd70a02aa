package effects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	names "github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// DefaultWindow is the time after a call in which another one is the same deed, in
// milliseconds, unless the capability says otherwise.
const DefaultWindow = 60_000

// Members are the members of a JSON object of strings, numbers and booleans.
// Equal texts share their memory and compare equal. The zero value is no object.
type Members struct{ text unique.Handle[string] }

// maxMembers bounds the object, in bytes.
const maxMembers = 1024

// IsZero reports whether there is no object.
func (m Members) IsZero() bool { return m == Members{} }

// Empty reports whether there is no object, or nothing in it.
func (m Members) Empty() bool { return len(m.values()) == 0 }

// String is the object, "" without one.
func (m Members) String() string {
	if m.IsZero() {
		return ""
	}
	return m.text.Value()
}

// MarshalJSON writes the object, null without one.
func (m Members) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return []byte(m.text.Value()), nil
}

// UnmarshalJSON reads an object; null is none.
func (m *Members) UnmarshalJSON(text []byte) error {
	*m = Members{}
	if string(text) == "null" {
		return nil
	}
	values, err := membersOf(text)
	if err != nil {
		return err
	}
	for name, v := range values {
		if v = bytes.TrimSpace(v); v[0] == '{' || v[0] == '[' || v[0] == 'n' {
			return fmt.Errorf("%s: must be a string, a number or a boolean", name)
		}
	}
	plain, err := json.Marshal(values) // in the order of the names
	if err != nil {
		return err
	}
	if len(plain) > maxMembers {
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(plain), maxMembers)
	}
	m.text = unique.Make(string(plain))
	return nil
}

// JSONSchema describes the object as a parameter of a command.
func (Members) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":{"type":["string","number","boolean"]},"description":"names and values, of at most 1 KiB"}`)
}

func (m Members) values() map[string]json.RawMessage {
	if m.IsZero() {
		return nil
	}
	values, _ := membersOf(json.RawMessage(m.String())) // it was read before
	return values
}

// A Reconcile names the read that shows whether a deed was done.
type Reconcile struct {
	Capability protocol.CapabilityID `json:"capability_id" doc:"capability of the same skill that is asked; its effect is read"`
	Params     Members               `json:"params,omitzero" doc:"its params; a text \"{door}\" stands for that param of the call"`
	Done       Members               `json:"done_when" doc:"state in its result when the deed was done"`
	NotDone    Members               `json:"not_done_when,omitzero" doc:"state in its result when the deed was not done; without it, nothing but done is ever found out"`
}

// IsZero reports whether nothing is declared.
func (r Reconcile) IsZero() bool { return r == Reconcile{} }

// A Shape is the members of an object, as a schema declares them.
type Shape struct {
	types    map[string][]string // nil of a member without a type
	required []string
	open     bool // other members are allowed
}

// ShapeOf reads the members that the text of a schema declares at its top.
func ShapeOf(schema string) Shape {
	var s struct {
		Properties map[string]struct {
			Type json.RawMessage `json:"type"`
		} `json:"properties"`
		Required   []string        `json:"required"`
		Additional json.RawMessage `json:"additionalProperties"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return Shape{open: true}
	}
	shape := Shape{types: make(map[string][]string), required: s.Required, open: string(s.Additional) != "false"}
	for name, p := range s.Properties {
		var one string
		var several []string
		if json.Unmarshal(p.Type, &one) == nil && one != "" {
			several = []string{one}
		} else {
			_ = json.Unmarshal(p.Type, &several)
		}
		shape.types[name] = several
	}
	return shape
}

// unknown is the error for a member that a schema does not declare.
func (s Shape) unknown(name, where string) error {
	message := fmt.Sprintf("names %q, which %s does not declare", name, where)
	if meant, ok := names.Nearest(name, maps.Keys(s.types)); ok {
		message += fmt.Sprintf("; did you mean %q?", meant)
	}
	return fmt.Errorf("%s", message)
}

// CheckKey fails if a template cannot make a key of params of a shape: each of its
// params must be required, and of one comparable type.
func (t Template) CheckKey(params Shape) error {
	for _, name := range t.Fields() {
		types, declared := params.types[name]
		switch {
		case !declared:
			return params.unknown(name, "params_schema")
		case len(types) == 0:
			return fmt.Errorf("names %q, for which params_schema has no type; give it string, integer or boolean", name)
		case len(types) > 1 || !slices.Contains([]string{"string", "integer", "boolean"}, types[0]):
			return fmt.Errorf("names %q of the type %s; only string, integer and boolean can be part of a key", name, strings.Join(types, " or "))
		case !slices.Contains(params.required, name):
			return fmt.Errorf("names %q, which is not required; a key needs it in every call", name)
		}
	}
	return nil
}

// CheckMembers fails for members that a schema does not declare.
func (s Shape) CheckMembers(m Members, where string) error {
	for _, name := range slices.Sorted(maps.Keys(m.values())) {
		if _, declared := s.types[name]; !declared && !(s.open && len(s.types) == 0) {
			return s.unknown(name, where)
		}
	}
	return nil
}

// CheckTemplates fails for params in braces that are not required.
func (r Reconcile) CheckTemplates(params Shape) error {
	for name, raw := range r.Params.values() {
		field, ok := placeholder(raw)
		if !ok {
			continue
		}
		if _, declared := params.types[field]; !declared {
			return fmt.Errorf("%s: %w", name, params.unknown(field, "params_schema"))
		}
		if !slices.Contains(params.required, field) {
			return fmt.Errorf("%s: names %q, which is not required; the question needs it in every call", name, field)
		}
	}
	return nil
}

// placeholder is the param in a text "{door}".
func placeholder(raw json.RawMessage) (field string, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil || len(text) < 3 || text[0] != '{' || text[len(text)-1] != '}' {
		return "", false
	}
	field = text[1 : len(text)-1]
	return field, fieldName.MatchString(field)
}

// Question is the params to ask with about a call.
func (r Reconcile) Question(params json.RawMessage) (json.RawMessage, error) {
	given, err := membersOf(params)
	if err != nil {
		return nil, err
	}
	question := make(map[string]json.RawMessage)
	for name, raw := range r.Params.values() {
		if field, ok := placeholder(raw); ok {
			raw = given[field]
		}
		question[name] = raw
	}
	return json.Marshal(question)
}

// Judge reads from a result whether the deed was done; known is false if the result does
// not tell.
func (r Reconcile) Judge(result json.RawMessage) (done, known bool) {
	got, err := membersOf(result)
	if err != nil {
		return false, false
	}
	is, isNot := r.Done.in(got), r.NotDone.in(got)
	return is, is != isNot
}

// in reports whether an object has all of the members, and there are some.
func (m Members) in(object map[string]json.RawMessage) bool {
	values := m.values()
	for name, want := range values {
		if got, ok := object[name]; !ok || !sameScalar(got, want) {
			return false
		}
	}
	return len(values) > 0
}

func sameScalar(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && comparable(x) && x == y
}

func comparable(v any) bool {
	switch v.(type) {
	case string, float64, bool:
		return true
	}
	return false
}
