package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The bounds of a schema from outside.
const (
	maxSchema      = 64 << 10 // bytes
	maxSchemaDepth = 16       // of schemas that are understood; deeper ones accept any value
	maxSchemaNodes = 2000     // likewise, since references may unfold to much more than their text
)

// A schemaDoc is the supported part of a JSON Schema. The skill or server of the tool
// checks arguments against the whole schema.
type schemaDoc struct {
	Ref                  string                     `json:"$ref"`
	Type                 schemaTypes                `json:"type"`
	Enum                 []json.RawMessage          `json:"enum"`
	Format               string                     `json:"format"`
	Properties           map[string]json.RawMessage `json:"properties"`
	Required             []string                   `json:"required"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	PatternProperties    json.RawMessage            `json:"patternProperties"`
	Items                json.RawMessage            `json:"items"`
	PrefixItems          json.RawMessage            `json:"prefixItems"`
	AnyOf                []json.RawMessage          `json:"anyOf"`
	OneOf                []json.RawMessage          `json:"oneOf"`
	AllOf                []json.RawMessage          `json:"allOf"`
	If                   json.RawMessage            `json:"if"`
	Dependent            json.RawMessage            `json:"dependentSchemas"`
	Defs                 map[string]json.RawMessage `json:"$defs"`
	Definitions          map[string]json.RawMessage `json:"definitions"`
}

// schemaTypes is one type, or a list of them.
type schemaTypes []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *schemaTypes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = schemaTypes{""}
	return json.Unmarshal(data, &(*t)[0])
}

// An importer converts a schema to nodes.
type importer struct {
	defs  map[string]json.RawMessage // by reference
	depth int
	nodes int
}

// importSchema returns the node of a tool's arguments.
func importSchema(text json.RawMessage) (*node, error) {
	if len(text) > maxSchema {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), maxSchema)
	}
	if b, ok := boolean(text); ok {
		if !b {
			return nil, errors.New("refuses everything")
		}
		return &node{kind: objectKind, open: true}, nil
	}
	doc, err := readSchema(text)
	if err != nil {
		return nil, err
	}
	if len(doc.Type) > 0 && !slices.Contains(doc.Type, "object") {
		return nil, errors.New("is not that of an object")
	}
	i := &importer{defs: make(map[string]json.RawMessage)}
	for name, def := range doc.Defs {
		i.defs["#/$defs/"+name] = def
	}
	for name, def := range doc.Definitions {
		i.defs["#/definitions/"+name] = def
	}
	n := i.object(doc)
	if len(doc.AdditionalProperties) == 0 && len(doc.Properties) > 0 && !doc.composed() {
		n.open = false // a list of parameters excludes others, although JSON Schema allows them
	}
	return n, nil
}

func readSchema(text json.RawMessage) (*schemaDoc, error) {
	doc := new(schemaDoc)
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, errors.New("is not a JSON Schema")
	}
	return doc, nil
}

// boolean returns the value of a schema that is true or false, and reports whether it
// is one.
func boolean(text json.RawMessage) (value, ok bool) {
	switch strings.TrimSpace(string(text)) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// composed reports whether members may be declared outside of properties.
func (s *schemaDoc) composed() bool {
	return s.Ref != "" || len(s.AnyOf)+len(s.OneOf)+len(s.AllOf) > 0 || len(s.If) > 0 || len(s.Dependent) > 0 || len(s.PatternProperties) > 0
}

// node returns the node of a schema within another, nil for any value.
func (i *importer) node(text json.RawMessage) *node {
	i.nodes++
	i.depth++
	defer func() { i.depth-- }()
	if i.depth > maxSchemaDepth || i.nodes > maxSchemaNodes {
		return nil
	}
	if _, ok := boolean(text); ok || len(text) == 0 {
		return nil
	}
	doc, err := readSchema(text)
	if err != nil {
		return nil
	}
	if def, ok := i.defs[doc.Ref]; ok && len(doc.Type) == 0 {
		return i.node(def)
	}
	if n, ok := i.orNull(doc); ok {
		return n
	}
	if doc.Ref != "" || len(doc.AnyOf)+len(doc.OneOf) > 0 {
		return nil
	}
	return i.typed(doc)
}

// orNull returns the node of a schema that is a choice of another schema and null.
func (i *importer) orNull(doc *schemaDoc) (*node, bool) {
	choices := doc.AnyOf
	if len(choices) == 0 {
		choices = doc.OneOf
	}
	if len(doc.Type) > 0 || len(choices) != 2 || len(doc.AllOf) > 0 {
		return nil, false
	}
	for at, choice := range choices {
		if s, err := readSchema(choice); err != nil || len(s.Type) != 1 || s.Type[0] != "null" {
			continue
		}
		n := i.node(choices[1-at])
		if n == nil {
			return nil, true
		}
		n.nullable = true
		return n, true
	}
	return nil, false
}

// typed returns the node of a schema by its type.
func (i *importer) typed(doc *schemaDoc) *node {
	types := slices.DeleteFunc(slices.Clone(doc.Type), func(t string) bool { return t == "null" })
	nullable := len(types) < len(doc.Type)
	words, null := stringsOf(doc.Enum)
	if len(types) == 0 && len(words) > 0 {
		types, nullable = []string{"string"}, null
	}
	if len(types) != 1 {
		return nil
	}
	var n *node
	switch types[0] {
	case "string":
		n = &node{kind: textKind(doc.Format), tokens: newTokens(words, false)}
	case "boolean":
		n = &node{kind: booleanKind}
	case "integer":
		n = &node{kind: integerKind}
	case "number":
		n = &node{kind: numberKind}
	case "array":
		n = &node{kind: listKind, wrap: len(doc.PrefixItems) == 0}
		if n.wrap {
			n.items = i.node(doc.Items)
		}
	case "object":
		n = i.object(doc)
	default:
		return nil
	}
	n.nullable = nullable
	return n
}

func textKind(format string) kind {
	switch format {
	case "date-time", "date":
		return timestampKind
	case "uri", "url":
		return uriKind
	}
	return stringKind
}

// stringsOf lists the values if all are strings; null may be among them.
func stringsOf(values []json.RawMessage) (list []string, null bool) {
	for _, v := range values {
		var s *string
		if json.Unmarshal(v, &s) != nil {
			return nil, false
		}
		if s == nil {
			null = true
			continue
		}
		list = append(list, *s)
	}
	return list, null
}

// object returns the node of the schema of an object.
func (i *importer) object(doc *schemaDoc) *node {
	n := &node{kind: objectKind, open: true}
	if closed, ok := boolean(doc.AdditionalProperties); ok && !closed && len(doc.PatternProperties) == 0 {
		n.open = doc.composed()
	} else if !ok && len(doc.PatternProperties) == 0 {
		n.rest = i.node(doc.AdditionalProperties)
	}
	list := make([]member, 0, len(doc.Properties))
	for _, name := range slices.Sorted(maps.Keys(doc.Properties)) {
		list = append(list, member{name: name, required: slices.Contains(doc.Required, name), node: i.node(doc.Properties[name])})
	}
	for _, name := range doc.Required {
		if _, declared := doc.Properties[name]; !declared {
			list = append(list, member{name: name, required: true})
		}
	}
	n.members = newMembers(list)
	return n
}
