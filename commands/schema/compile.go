package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// describer is implemented by types that decode themselves and describe their
// input.
type describer interface{ JSONSchema() json.RawMessage }

var (
	rawType        = reflect.TypeFor[json.RawMessage]()
	bytesType      = reflect.TypeFor[[]byte]()
	timeType       = reflect.TypeFor[time.Time]()
	serialType     = reflect.TypeFor[protocol.Serial]()
	durationType   = reflect.TypeFor[time.Duration]()
	identifierType = reflect.TypeFor[protocol.Identifier]()
	describerType  = reflect.TypeFor[describer]()

	jsonReaderType = reflect.TypeFor[json.Unmarshaler]()
	jsonWriterType = reflect.TypeFor[json.Marshaler]()
	textReaderType = reflect.TypeFor[encoding.TextUnmarshaler]()
	textWriterType = reflect.TypeFor[encoding.TextMarshaler]()
)

// A compiler walks over a type.
type compiler struct {
	result bool          // describe for encoding; a type without a schema is anything
	flag   *Flag         // of the outermost struct, nil for none
	inside []*structNode // being compiled, to find recursion
}

// compile makes the node for a type under the limits of its field.
func (c compiler) compile(t reflect.Type, limits *tags) (node, error) {
	n, err := c.choose(t, limits)
	if err != nil {
		return nil, err
	}
	return n, limits.leftover()
}

func (c compiler) choose(t reflect.Type, limits *tags) (node, error) {
	switch {
	case t == rawType:
		return newRaw(limits)
	case t == timeType:
		return timeNode{}, nil
	case t == durationType:
		return nil, fmt.Errorf("durations travel as a number of milliseconds or seconds, not as time.Duration")
	case t == bytesType:
		return newBytes(limits)
	case t == serialType:
		return serialNode{}, nil
	case c.custom(t):
		return c.newCustom(t)
	case t.Kind() != reflect.String && c.texts(t):
		return newText(t)
	}
	switch t.Kind() {
	case reflect.String:
		return c.newString(t, limits)
	case reflect.Bool:
		return boolNode{}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return newInt(t, limits)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return newUint(t, limits)
	case reflect.Float32, reflect.Float64:
		return newFloat(t, limits)
	case reflect.Pointer:
		inner, err := c.compile(t.Elem(), limits)
		return pointerNode{inner, c.result && limits.omit == never}, err
	case reflect.Slice:
		return c.newList(t, limits)
	case reflect.Map:
		return c.newMap(t, limits)
	case reflect.Struct:
		return c.newStruct(t)
	case reflect.Interface:
		if t.NumMethod() == 0 || c.result {
			return anyNode{}, nil
		}
	}
	return nil, fmt.Errorf("the type %s is not supported", t)
}

// custom reports whether the type reads or writes JSON itself.
func (c compiler) custom(t reflect.Type) bool {
	if c.result && t.Implements(jsonWriterType) {
		return true
	}
	return t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(jsonReaderType)
}

// texts reports whether the type reads or writes itself as a string.
func (c compiler) texts(t reflect.Type) bool {
	if c.result && t.Implements(textWriterType) {
		return true
	}
	return t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textReaderType)
}

func (c compiler) newCustom(t reflect.Type) (node, error) {
	document, err := ownSchema(t)
	switch {
	case document != nil || err != nil:
		return customNode{document}, err
	case c.result:
		return customNode{json.RawMessage("true")}, nil
	}
	return nil, fmt.Errorf("%s decodes itself and needs a method JSONSchema() json.RawMessage", t)
}

func newText(t reflect.Type) (node, error) {
	document, err := ownSchema(t)
	return textNode{document}, err
}

// ownSchema is the schema that a type gives for itself, nil if it gives none.
func ownSchema(t reflect.Type) (json.RawMessage, error) {
	if !t.Implements(describerType) {
		return nil, nil
	}
	document := reflect.Zero(t).Interface().(describer).JSONSchema()
	if !json.Valid(document) {
		return nil, fmt.Errorf("JSONSchema of %s is not JSON", t)
	}
	return document, nil
}

func (c compiler) newList(t reflect.Type, limits *tags) (node, error) {
	n := &listNode{typ: t}
	var err error
	if n.size, err = limits.len(); err != nil {
		return nil, err
	}
	n.items, err = c.compile(t.Elem(), limits.forItems())
	return n, err
}

func (c compiler) newMap(t reflect.Type, limits *tags) (node, error) {
	if t.Key().Kind() != reflect.String {
		return nil, fmt.Errorf("the keys of %s are not strings", t)
	}
	n := &mapNode{typ: t}
	var err error
	if n.size, err = limits.len(); err != nil {
		return nil, err
	}
	if n.keys, err = c.newString(t.Key(), &tags{}); err != nil {
		return nil, err
	}
	n.values, err = c.compile(t.Elem(), limits.forItems())
	return n, err
}

func (c compiler) newStruct(t reflect.Type) (node, error) {
	if i := slices.IndexFunc(c.inside, func(n *structNode) bool { return n.typ == t }); i >= 0 {
		if c.result {
			return againNode{c.inside[i]}, nil
		}
		return nil, fmt.Errorf("%s contains itself; take a json.RawMessage", t)
	}
	n := &structNode{typ: t, short: -1, check: checker(t), strict: !c.result}
	c.inside = append(slices.Clip(c.inside), n)
	flag := c.flag
	c.flag = nil
	if err := c.addFields(n, t, nil); err != nil {
		return nil, err
	}
	if flag != nil {
		if n.has(flag.Name) {
			return nil, fmt.Errorf("%s has a field %q, which is not for the command", t, flag.Name)
		}
		n.fields = append(n.fields, field{name: flag.Name, node: boolNode{}, doc: flag.Doc, optional: true, flag: true})
	}
	if len(n.fields) > 64 {
		return nil, fmt.Errorf("%s has more than 64 fields", t)
	}
	n.indexNames()
	if n.short < 0 {
		return n, nil
	}
	for i := range n.fields {
		if f := &n.fields[i]; i != n.short && !f.optional {
			return nil, fmt.Errorf("%s may be given as a string, so its field %s must be optional", t, f.name)
		}
	}
	return &shortNode{structNode: n}, nil
}

// addFields adds the fields of t, and of the structs embedded in it as if
// they were its own.
func (c compiler) addFields(n *structNode, t reflect.Type, index []int) error {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if err := c.addField(n, f, append(slices.Clip(index), i)); err != nil {
			return fmt.Errorf("field %s of %s: %w", f.Name, t, err)
		}
	}
	return nil
}

func (c compiler) addField(n *structNode, f reflect.StructField, index []int) error {
	t, err := parseTags(f)
	switch {
	case err != nil:
		return err
	case t.skip:
		return nil
	case f.Anonymous && t.name == "":
		if f.Type.Kind() != reflect.Struct {
			return fmt.Errorf("only structs can be embedded")
		}
		return c.addFields(n, f.Type, index)
	case !f.IsExported():
		return nil
	case n.has(t.name):
		return fmt.Errorf("the name %q is used twice", t.name)
	}
	text, hasDefault := t.take("default")
	inner, err := c.compile(f.Type, t)
	if err != nil {
		return err
	}
	added := field{name: t.name, at: index, node: inner, doc: t.doc, optional: t.optional, omit: t.omit}
	if c.result {
		added.optional = t.omit != never
	}
	if hasDefault {
		if added.fallback, err = parseDefault(inner, f.Type, text); err != nil {
			return err
		}
	}
	if t.short {
		if f.Type.Kind() != reflect.String {
			return fmt.Errorf("the tag short does not apply here")
		}
		n.short = len(n.fields)
	}
	n.fields = append(n.fields, added)
	return nil
}

// parseDefault turns a default into JSON: it is JSON, or else a bare string.
func parseDefault(n node, t reflect.Type, text string) (json.RawMessage, error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	for _, candidate := range []json.RawMessage{json.RawMessage(text), quoted} {
		if json.Valid(candidate) && apart(n, candidate, reflect.New(t).Elem()) == nil {
			return candidate, nil
		}
	}
	return nil, fmt.Errorf("default %q breaks the field's own limits", text)
}

// validator is implemented by structs with rules that span fields.
type validator interface{ Validate() error }

var validatorType = reflect.TypeFor[validator]()

// checker returns the function that asks a struct for its own opinion, nil if
// it has none.
func checker(t reflect.Type) func(reflect.Value) error {
	switch {
	case t.Implements(validatorType):
		return func(v reflect.Value) error { return v.Interface().(validator).Validate() }
	case reflect.PointerTo(t).Implements(validatorType):
		return func(v reflect.Value) error { return v.Addr().Interface().(validator).Validate() }
	}
	return nil
}
