package schema

import (
	"bytes"
	"encoding/json"
	"slices"
)

// An object is a JSON object that keeps the order of its members, so that
// schemas read in the order of their declaration.
type object struct {
	members  []member
	verbatim json.RawMessage // a schema of a type's own, before the members, which win over it
}

type member struct {
	key   string
	value any
}

func (o *object) set(key string, value any) *object {
	o.members = append(o.members, member{key, value})
	return o
}

// get returns the value of a member, nil if there is none.
func (o *object) get(key string) any {
	for _, m := range o.members {
		if m.key == key {
			return m.value
		}
	}
	if o.verbatim != nil {
		var own map[string]any
		_ = json.Unmarshal(o.verbatim, &own) // true has no members
		return own[key]
	}
	return nil
}

func typed(name string) *object { return new(object).set("type", name) }

// MarshalJSON implements [json.Marshaler].
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := o.write(&b)
	return b.Bytes(), err
}

// write writes the object. Objects inside are written in place: encoding/json
// would check and copy them again at every level.
func (o *object) write(b *bytes.Buffer) error {
	b.WriteByte('{')
	for i, m := range append(o.own(), o.members...) {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeValue(b, m.key); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := writeValue(b, m.value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeValue(b *bytes.Buffer, value any) error {
	if o, ok := value.(*object); ok && o != nil {
		return o.write(b)
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// own returns the keywords of a type's own schema that are not among the members, in its
// order.
func (o *object) own() []member {
	dec := json.NewDecoder(bytes.NewReader(o.verbatim))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil // none, or true
	}
	var own []member
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return own // not reached: it was found valid when it was declared
		}
		name, _ := key.(string)
		if !slices.ContainsFunc(o.members, func(m member) bool { return m.key == name }) {
			own = append(own, member{name, value})
		}
	}
	return own
}
