package schema

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"

	"github.com/aibridge/aibridge/protocol"
)

// A structNode decodes objects with named fields.
type structNode struct {
	typ    reflect.Type
	fields []field
	byName map[string]int
	short  int                       // the field a plain string stands for, -1 for none
	strict bool                      // refuses unknown fields
	check  func(reflect.Value) error // the struct's own Validate, nil without one
}

type field struct {
	name     string
	at       []int // index path through embedded structs
	node     node
	doc      string
	optional bool
	omit     omission
	fallback json.RawMessage // default, nil for none
	flag     bool            // goes to the decoder, not into the struct
}

// of finds the field in a value of the struct.
func (f *field) of(v reflect.Value) reflect.Value {
	for _, i := range f.at {
		v = v.Field(i)
	}
	return v
}

func (n *structNode) has(name string) bool {
	for i := range n.fields {
		if n.fields[i].name == name {
			return true
		}
	}
	return false
}

func (n *structNode) indexNames() {
	n.byName = make(map[string]int, len(n.fields))
	for i := range n.fields {
		n.byName[n.fields[i].name] = i
	}
}

// find looks a field up; callers mostly send them in the declared order.
func (n *structNode) find(name []byte, expected int) (int, bool) {
	if expected < len(n.fields) && n.fields[expected].name == string(name) {
		return expected, true
	}
	i, ok := n.byName[string(name)]
	return i, ok
}

func (n *structNode) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range n.fields {
			if !yield(n.fields[i].name) {
				return
			}
		}
	}
}

func (n *structNode) decode(d *decoder, v reflect.Value) {
	if !d.expect(anObject) {
		return
	}
	before := len(d.problems)
	seen := n.decodeFields(d, v)
	n.complete(d, v, seen)
	n.validate(d, v, before)
}

// complete fills in the defaults of fields that were not there and reports
// those that had to be.
func (n *structNode) complete(d *decoder, v reflect.Value, seen uint64) {
	for i := range n.fields {
		f := &n.fields[i]
		switch {
		case seen&(1<<i) != 0 || d.halted:
		case f.fallback != nil:
			_ = apart(f.node, f.fallback, f.of(v)) // was checked when compiled
		case !f.optional:
			d.reportIn(f.name, "is missing", "")
		}
	}
}

// validate asks the struct itself, if no problem was found in it before.
func (n *structNode) validate(d *decoder, v reflect.Value, before int) {
	if n.check == nil || len(d.problems) > before {
		return
	}
	if err := n.check(v); err != nil {
		d.reportError(err)
	}
}

// decodeFields decodes the members of an object and returns the set of fields
// that were there.
func (n *structNode) decodeFields(d *decoder, v reflect.Value) (seen uint64) {
	next := 0
	for more := d.open('}'); more; more = d.more('}') {
		name := d.name()
		i, ok := n.find(name, next)
		switch {
		case d.halted:
			return seen
		case !ok:
			n.reportUnknown(d, string(name))
			d.raw()
			continue
		case seen&(1<<i) != 0:
			d.reportIn(n.fields[i].name, "is given twice", "")
			d.raw()
			continue
		}
		f := &n.fields[i]
		seen |= 1 << i
		next = i + 1
		d.push(f.name)
		if f.flag {
			f.node.decode(d, reflect.ValueOf(&d.flag).Elem())
		} else {
			f.node.decode(d, f.of(v))
		}
		d.pop()
	}
	return seen
}

// params is the name of the field that takes the parameters of something else,
// "" without one.
func (n *structNode) params() string {
	for name := range n.names() {
		if name == "params" {
			return name
		}
	}
	return ""
}

func (n *structNode) reportUnknown(d *decoder, name string) {
	reason := "is unknown"
	meant, ok := Meant(name, n.names())
	if inner := n.params(); !ok && inner != "" { // parameters of a capability belong one level down
		meant, ok = inner+"."+name, true
	}
	if ok {
		reason += fmt.Sprintf("; did you mean %q?", meant)
	}
	d.reportIn(name, reason, meant)
}

func (n *structNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range n.fields {
		f := &n.fields[i]
		value := f.of(v)
		if f.leftOut(value) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = protocol.AppendString(dst, f.name)
		dst = append(dst, ':')
		var err error
		if dst, err = f.node.encode(dst, value); err != nil {
			return dst, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return append(dst, '}'), nil
}

// leftOut says whether encoding skips a value, by the rules of encoding/json.
func (f *field) leftOut(v reflect.Value) bool {
	switch f.omit {
	case ifZero:
		if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
		return v.IsZero()
	case ifEmpty:
		switch v.Kind() {
		case reflect.Slice, reflect.Map, reflect.String:
			return v.Len() == 0
		case reflect.Struct:
			return false
		}
		return v.IsZero()
	}
	return false
}

func (n *structNode) schema() *object {
	properties := new(object)
	required := []string{}
	for i := range n.fields {
		f := &n.fields[i]
		o := f.node.schema()
		if f.doc != "" {
			o.set("description", f.doc)
		}
		if f.fallback != nil {
			o.set("default", f.fallback)
		}
		properties.set(f.name, o)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	o := typed("object").set("properties", properties)
	if len(required) > 0 {
		o.set("required", required)
	}
	if n.strict {
		o.set("additionalProperties", false)
	}
	return o
}

// A shortNode decodes a struct that may be given as the string of one field.
type shortNode struct{ *structNode }

func (n *shortNode) decode(d *decoder, v reflect.Value) {
	if d.peek() != '"' {
		n.structNode.decode(d, v)
		return
	}
	before := len(d.problems)
	f := &n.fields[n.short]
	f.node.decode(d, f.of(v))
	n.complete(d, v, 1<<n.short)
	n.validate(d, v, before)
}

func (n *shortNode) schema() *object {
	return new(object).set("anyOf", []*object{n.fields[n.short].node.schema(), n.structNode.schema()})
}

// An againNode is a struct inside itself, which results may have.
type againNode struct{ *structNode }

func (againNode) schema() *object { return typed("object") }
