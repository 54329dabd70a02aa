package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// JSONSchema is the schema (2020-12) of the arguments. It describes an object, without
// further members if the tool declares its own parameters. The texts of an untrusted
// tool's schema are bounded.
func (d *Declaration) JSONSchema() json.RawMessage {
	doc := d.schema()
	if doc == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return marshal(doc)
}

// schema returns the schema as a document, nil if it is not an object.
func (d *Declaration) schema() map[string]any {
	if len(d.Schema) == 0 {
		return declaredSchema(d.Parameters)
	}
	var doc any
	dec := json.NewDecoder(bytes.NewReader(d.Schema))
	dec.UseNumber()
	if dec.Decode(&doc) != nil {
		return nil
	}
	if d.Untrusted {
		doc = tameSchema(doc, false)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	delete(object, "$schema")
	if _, ok := object["type"]; !ok {
		object["type"] = "object"
	}
	if _, ok := object["properties"]; !ok {
		object["properties"] = map[string]any{} // required by some providers
	}
	return object
}

func declaredSchema(list []Parameter) map[string]any {
	properties := make(map[string]any, len(list))
	required := []any{}
	for i := range list {
		p := &list[i]
		properties[p.Name] = p.schema()
		if p.Required {
			required = append(required, p.Name)
		}
	}
	doc := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		doc["required"] = required
	}
	return doc
}

// schema is the schema of one parameter.
func (p *Parameter) schema() map[string]any {
	s := p.valueSchema()
	switch p.Cardinality {
	case Optional:
		if p.Required { // must be present, as null at least
			orNull(s)
		}
	case List:
		s = map[string]any{"type": "array", "items": s}
	case Map:
		s = map[string]any{"type": "object", "additionalProperties": s}
	}
	if p.Description != "" {
		s["description"] = p.Description
	}
	if len(p.Example) > 0 {
		s["examples"] = []any{p.Example}
	}
	return s
}

// valueSchema is the schema of one value of the parameter.
func (p *Parameter) valueSchema() map[string]any {
	s := map[string]any{"type": "string"}
	switch p.Kind {
	case Boolean:
		s["type"] = "boolean"
	case Integer:
		s["type"] = "integer"
	case Number:
		s["type"] = "number"
	case JSONObject:
		s["type"] = "object"
	case JSONArray:
		s["type"] = "array"
		s["items"] = map[string]any{}
	case Timestamp:
		s["format"] = "date-time"
	case URI:
		s["format"] = "uri"
	}
	if len(p.Enum) == 0 {
		return s
	}
	values := make([]any, len(p.Enum))
	for i, v := range p.Enum {
		values[i] = v
		if p.Kind == Integer {
			values[i] = json.Number(v)
		}
	}
	s["enum"] = values
	return s
}

// marshal encodes a document of JSON values, which cannot fail.
func marshal(doc any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return bytes.TrimSpace(b.Bytes())
}

// Markdown describes the tool for people and for prompts.
func (d *Declaration) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### `%s`\n", d.Name)
	if told := d.Told(); told != "" {
		fmt.Fprintf(&b, "\n%s\n", told)
	}
	marks := []string{d.Effect.String()}
	if d.Idempotent {
		marks = append(marks, "idempotent")
	}
	if d.Risk != "" {
		marks = append(marks, "risk: "+d.Risk)
	}
	if d.Strict {
		marks = append(marks, "strict")
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(marks, ", "))
	if len(d.Schema) > 0 {
		fmt.Fprintf(&b, "\n```json\n%s\n```\n", d.JSONSchema())
		return b.String()
	}
	if len(d.Parameters) == 0 {
		return b.String()
	}
	b.WriteString("\n| parameter | type | required | |\n|---|---|---|---|\n")
	for i := range d.Parameters {
		p := &d.Parameters[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.typeText(), map[bool]string{true: "yes", false: "no"}[p.Required], cell(p.text()))
	}
	return b.String()
}

func (p *Parameter) typeText() string {
	switch p.Cardinality {
	case List:
		return "List of " + string(p.Kind)
	case Map:
		return "Map of " + string(p.Kind)
	case Optional:
		return string(p.Kind) + " or null"
	}
	return string(p.Kind)
}

// text is the description of a parameter, with its allowed values and its example.
func (p *Parameter) text() string {
	parts := []string{}
	if p.Description != "" {
		parts = append(parts, p.Description)
	}
	if len(p.Enum) > 0 {
		parts = append(parts, "one of `"+strings.Join(p.Enum, "`, `")+"`")
	}
	if len(p.Example) > 0 {
		parts = append(parts, "such as `"+string(p.Example)+"`")
	}
	return strings.Join(parts, "; ")
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "").Replace(text)
}

// StrictSchema is the schema in the strict variant that some providers enforce: every
// member is required, optional members may be null, and there are no others. It reports
// false if the arguments cannot be described so, or only with keywords that not every
// such provider understands, since a provider refuses the whole request then.
func (d *Declaration) StrictSchema() (json.RawMessage, bool) {
	doc := d.schema()
	members := 0
	if doc == nil || !strict(doc, 0, &members) {
		return nil, false
	}
	return marshal(doc), true
}

// strictWords are the keywords of the strict variant at all providers.
var strictWords = []string{
	"type", "properties", "required", "additionalProperties", "items", "enum", "const", "description", "title",
}

// droppedWords are keywords without constraints, which are removed.
var droppedWords = []string{"examples", "default", "$comment", "deprecated", "readOnly", "writeOnly"}

// The bounds of a strict schema.
const (
	maxStrictDepth   = 5
	maxStrictMembers = 100
	maxStrictEnum    = 250
)

// strict makes a schema strict, if it can be.
func strict(s map[string]any, depth int, members *int) bool {
	for word := range s {
		switch {
		case slices.Contains(droppedWords, word):
			delete(s, word)
		case !slices.Contains(strictWords, word):
			return false
		}
	}
	if enum, ok := s["enum"].([]any); depth > maxStrictDepth || ok && len(enum) > maxStrictEnum {
		return false
	}
	if items, ok := s["items"]; ok {
		inner, ok := items.(map[string]any)
		if !ok || len(inner) == 0 || !strict(inner, depth+1, members) {
			return false
		}
	}
	if s["type"] != "object" {
		return s["type"] != nil && (s["type"] != "array" || s["items"] != nil)
	}
	return strictObject(s, depth, members)
}

func strictObject(s map[string]any, depth int, members *int) bool {
	properties, ok := s["properties"].(map[string]any)
	if !ok || s["additionalProperties"] != nil && s["additionalProperties"] != false {
		return false
	}
	if s["additionalProperties"] == nil && (depth > 0 || len(properties) == 0) {
		return false // further members are intended
	}
	if *members += len(properties); *members > maxStrictMembers {
		return false
	}
	required, _ := s["required"].([]any)
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, ok := properties[name].(map[string]any)
		if !ok || !strict(property, depth+1, members) {
			return false
		}
		if !slices.Contains(required, any(name)) && !orNull(property) {
			return false
		}
		all = append(all, name)
	}
	s["required"], s["additionalProperties"] = all, false
	return true
}

// orNull adds null to the values of a schema, if it can be added.
func orNull(s map[string]any) bool {
	if _, ok := s["const"]; ok {
		return false
	}
	switch t := s["type"].(type) {
	case string:
		if t != "null" {
			s["type"] = []any{t, "null"}
		}
	case []any:
		if !slices.Contains(t, any("null")) {
			s["type"] = append(slices.Clone(t), "null")
		}
	default:
		return false
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, nil) {
		s["enum"] = append(slices.Clone(enum), nil)
	}
	return true
}
