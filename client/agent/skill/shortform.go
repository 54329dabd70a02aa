package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/aibridge/aibridge/internal/schemaword"
)

// Parameters and results are written in one of three forms, which all become
// JSON Schema:
//
//	a schema      {type: object, properties: {celsius: {type: number}}, required: [celsius]}
//	a list        [{name: celsius, type: number, required: true}]
//	a mapping     {celsius: {type: number, required: true}} or just {celsius: number}
//
// In the list and the mapping everything but name and required is JSON Schema
// for that one property. A result may also be just the name of a type.

// typeNames are the types of JSON Schema.
var typeNames = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// wholeSchema are keywords that only a schema of the whole can mean.
var wholeSchema = []string{
	"$schema", "$id", "$ref", "$defs", "properties", "patternProperties", "additionalProperties",
	"propertyNames", "allOf", "anyOf", "oneOf", "not", "if",
}

// otherKeywords may stand beside "type" in a schema.
var otherKeywords = []string{
	"type", "title", "description", "default", "examples", "enum", "const", "format", "required",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
	"items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "$comment",
}

// params reads the parameters of a capability. Absent means anything, empty nothing.
func (d *decoder) params(f *field) *Schema {
	if f == nil {
		return nil
	}
	if f.value.Kind == yaml.ScalarNode {
		d.fail(f, "must be a JSON Schema, a list of parameters or a mapping of them, not %s", kindOf(f.value))
		return nil
	}
	if isSchema(f.value) {
		if t := lookUp(f.value, "type"); t != nil && t.Value != "object" {
			d.fail(f, "parameters are named and so must have the type object, not %q; a parameter called \"type\" can be declared in the list form", t.Value)
			return nil
		}
		return d.schema(f)
	}
	return d.shortForm(f, true)
}

// result reads the result of a capability.
func (d *decoder) result(f *field) *Schema {
	switch {
	case f == nil:
		return nil
	case f.value.Kind == yaml.ScalarNode || isSchema(f.value):
		return d.schema(f)
	}
	return d.shortForm(f, false)
}

// isSchema tells a JSON Schema from the short mapping form: it has a keyword
// that only a whole schema has, or a type's name as type and nothing but
// keywords beside it.
func isSchema(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return false
	}
	keywordsOnly := true
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if slices.Contains(wholeSchema, key) {
			return true
		}
		keywordsOnly = keywordsOnly && slices.Contains(otherKeywords, key)
	}
	t := lookUp(n, "type")
	return keywordsOnly && t != nil && (t.Kind == yaml.SequenceNode || slices.Contains(typeNames, t.Value))
}

func lookUp(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// schema reads a JSON Schema written out, or the name of a type.
func (d *decoder) schema(f *field) *Schema {
	text, ok := d.property(nil, f)
	if !ok {
		return nil
	}
	return d.compile(f, text, func(location []string) *field { return within(f, location) })
}

// shortForm reads a list or mapping of properties. A closed one refuses
// properties that are not declared.
func (d *decoder) shortForm(f *field, closed bool) *Schema {
	props := d.properties(f)
	if props == nil {
		return nil
	}
	text := []byte(`{"type":"object","properties":{`)
	var required []string
	for i, p := range props {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(appendString(text, p.name), ':')
		var ok bool
		if text, ok = d.property(text, p.field, "name"); !ok {
			return nil
		}
		if p.required {
			required = append(required, p.name)
		}
	}
	text = append(text, '}')
	if len(required) > 0 {
		names, _ := json.Marshal(required) // strings are always encodable
		text = append(append(text, `,"required":`...), names...)
	}
	if closed {
		text = append(text, `,"additionalProperties":false`...)
	}
	return d.compile(f, append(text, '}'), func(location []string) *field {
		if len(location) > 1 && location[0] == "properties" {
			for _, p := range props {
				if p.name == location[1] {
					return within(p.field, location[2:])
				}
			}
		}
		return f
	})
}

// A shortProperty is one entry of the short form.
type shortProperty struct {
	name     string
	required bool
	field    *field
}

func (d *decoder) properties(f *field) []shortProperty {
	props := []shortProperty{}
	seen := map[string]bool{}
	add := func(name string, of *field) {
		if seen[name] {
			d.fail(of, "%q is declared twice", name)
			return
		}
		seen[name] = true
		required := of.value.Kind == yaml.MappingNode && isTrue(lookUp(of.value, "required"))
		props = append(props, shortProperty{name, required, of})
	}
	before := len(d.problems)
	if f.value.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(f.value.Content); i += 2 {
			key := f.value.Content[i]
			add(key.Value, &field{path: join(f.path, key.Value), value: f.value.Content[i+1], line: key.Line})
		}
	} else {
		for _, item := range d.list(f, 0, 100) {
			if item.value.Kind != yaml.MappingNode {
				d.fail(item, "must be a mapping like {name: celsius, type: number}, not %s", kindOf(item.value))
				continue
			}
			name := lookUp(item.value, "name")
			if name == nil {
				d.fail(item, "has no name")
				continue
			}
			nameField := &field{path: item.path + ".name", value: name, line: name.Line}
			if text := d.text(nameField, 1, 64); text != "" {
				add(text, item)
			}
		}
	}
	if len(d.problems) > before {
		return nil
	}
	return props
}

func isTrue(n *yaml.Node) bool {
	return n != nil && n.ShortTag() == "!!bool" && strings.EqualFold(n.Value, "true")
}

// property appends the schema of one value: a type's name, or a mapping of
// keywords without those named in skip and without required as true or false.
func (d *decoder) property(dst []byte, f *field, skip ...string) ([]byte, bool) {
	n := f.value
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!bool" {
			break // a schema may be just true
		}
		if !slices.Contains(typeNames, n.Value) {
			d.fail(f, "%q is not a type%s", n.Value, didYouMeanType(n.Value))
			return dst, false
		}
		return append(appendString(append(dst, `{"type":`...), n.Value), '}'), true
	case yaml.SequenceNode:
		d.fail(f, "must be a type's name or a mapping, not a list")
		return dst, false
	default:
	}
	if t := lookUp(n, "type"); t != nil && t.Kind == yaml.ScalarNode && !slices.Contains(typeNames, t.Value) {
		d.fail(&field{path: f.path + ".type", line: t.Line}, "%q is not a type%s", t.Value, didYouMeanType(t.Value))
		return dst, false
	}
	if r := lookUp(n, "required"); r != nil && r.ShortTag() == "!!bool" {
		skip = append(skip, "required")
	}
	return d.json(dst, f, skip...)
}

// didYouMeanType is the type for a name of another language.
func didYouMeanType(name string) string {
	switch strings.ToLower(name) {
	case "int", "long", "short", "uint":
		name = "integer"
	case "float", "double", "decimal", "real":
		name = "number"
	case "bool":
		name = "boolean"
	case "str", "text":
		name = "string"
	case "list", "tuple":
		name = "array"
	case "map", "dict", "struct":
		name = "object"
	}
	if hint := didYouMean(name, typeNames); hint != "" {
		return hint
	}
	return "; the types are " + strings.Join(typeNames, ", ")
}

// compile makes a schema of the text. locate finds the field that a place in
// the schema was written in.
func (d *decoder) compile(f *field, text []byte, locate func([]string) *field) *Schema {
	s, err := newSchema(text)
	if err == nil {
		for _, m := range schemaword.Check(text) {
			d.warn(locate(append(m.At, m.Keyword)), fmt.Sprintf("is no keyword of JSON Schema and is passed over, did you mean %q?", m.Meant))
		}
		return s
	}
	var refused *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &refused) && errors.As(refused.Err, &invalid) {
		for len(invalid.Causes) > 0 {
			invalid = invalid.Causes[0]
		}
		place := locate(invalid.InstanceLocation)
		d.fail(place, "is not JSON Schema: %s", invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
		return nil
	}
	d.fail(f, "is not JSON Schema: %v", err)
	return nil
}

// within follows a location through the tree as far as it goes.
func within(f *field, location []string) *field {
	for _, token := range location {
		next := f.step(token)
		if next == nil {
			return f
		}
		f = next
	}
	return f
}

func (f *field) step(token string) *field {
	switch f.value.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(f.value.Content); i += 2 {
			if key := f.value.Content[i]; key.Value == token {
				return &field{path: join(f.path, token), value: f.value.Content[i+1], line: key.Line}
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(f.value.Content) {
			n := f.value.Content[i]
			return &field{path: fmt.Sprintf("%s[%d]", f.path, i), value: n, line: n.Line}
		}
	default:
	}
	return nil
}

// json appends a tree as JSON, a mapping without the fields named in skip.
func (d *decoder) json(dst []byte, f *field, skip ...string) ([]byte, bool) {
	n := f.value
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		first := true
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if slices.Contains(skip, key.Value) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendString(dst, key.Value), ':')
			var ok bool
			if dst, ok = d.json(dst, &field{path: join(f.path, key.Value), value: n.Content[i+1], line: key.Line}); !ok {
				return dst, false
			}
		}
		return append(dst, '}'), true
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			var ok bool
			if dst, ok = d.json(dst, &field{path: fmt.Sprintf("%s[%d]", f.path, i), value: item, line: item.Line}); !ok {
				return dst, false
			}
		}
		return append(dst, ']'), true
	default:
		return d.scalar(dst, f)
	}
}

func (d *decoder) scalar(dst []byte, f *field) ([]byte, bool) {
	n := f.value
	switch n.ShortTag() {
	case "!!null":
		return append(dst, "null"...), true
	case "!!bool":
		return strconv.AppendBool(dst, isTrue(n)), true
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			if !moderate(n.Value) {
				d.fail(f, "is a number out of range: %.40s", n.Value)
				return dst, false
			}
			return append(dst, n.Value...), true // as written: no digit is lost
		}
		var v any
		if err := n.Decode(&v); err != nil {
			d.fail(f, "is not a number: %q", n.Value)
			return dst, false
		}
		text, err := json.Marshal(v)
		if err != nil { // NaN and the infinities
			d.fail(f, "is not a number JSON can express: %s", n.Value)
			return dst, false
		}
		return append(dst, text...), true
	}
	return appendString(dst, n.Value), true
}

// moderate tells numbers that computers are used to from those that only take
// their time: schemas are compared in exact arithmetic.
func moderate(number string) bool {
	if len(number) > 64 {
		return false
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(number[i+1:])
	return err == nil && exponent >= -308 && exponent <= 308
}

func appendString(dst []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string is always encodable
	return append(dst, text...)
}
