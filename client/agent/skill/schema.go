package skill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema describes the parameters or the result of a capability. It is immutable
// and safe for concurrent use. The bridge checks values against it; here it is only
// made sure that it can.
type Schema struct {
	text     json.RawMessage
	names    []string // of the properties, in the order written
	defaults []defaultValue
}

type defaultValue struct {
	name  string
	value json.RawMessage
}

// JSON is the schema as JSON Schema 2020-12. It is nil for a nil Schema.
func (s *Schema) JSON() json.RawMessage {
	if s == nil {
		return nil
	}
	return s.text
}

// Properties are the names the schema declares at its top, in the order
// written.
func (s *Schema) Properties() []string {
	if s == nil {
		return nil
	}
	return s.names
}

// newSchema compiles a schema. References lead to nowhere but the schema
// itself: nothing is fetched and no file is read.
func newSchema(text []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const url = "skill:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	if _, err := c.Compile(url); err != nil {
		return nil, err
	}
	s := &Schema{text: text}
	s.readProperties()
	return s, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside this schema, and only references within it are followed", url)
}

// readProperties keeps the names and defaults of the top-level properties.
func (s *Schema) readProperties() {
	var shape struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(s.text, &shape) != nil || len(shape.Properties) == 0 {
		return
	}
	var values map[string]struct {
		Default json.RawMessage `json:"default"`
	}
	if json.Unmarshal(shape.Properties, &values) != nil {
		return
	}
	s.names = keys(shape.Properties)
	for _, name := range s.names {
		if v := values[name].Default; v != nil {
			s.defaults = append(s.defaults, defaultValue{name, v})
		}
	}
}

// keys are the names of a JSON object in the order written.
func keys(object []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	var names []string
	for dec.More() {
		name, err := dec.Token()
		var skipped json.RawMessage
		if err != nil || dec.Decode(&skipped) != nil {
			return names
		}
		names = append(names, name.(string)) // the tokens of an object's keys are strings
	}
	return names
}

// Complete returns params, a JSON object, with the declared default for every
// property that is absent.
func (s *Schema) Complete(params json.RawMessage) json.RawMessage {
	if s == nil || len(s.defaults) == 0 {
		return params
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(params, &given) != nil || given == nil {
		return params
	}
	end := bytes.LastIndexByte(params, '}')
	out := slices.Clone(params[:end])
	comma := len(given) > 0
	for _, d := range s.defaults {
		if _, there := given[d.name]; there {
			continue
		}
		if comma {
			out = append(out, ',')
		}
		comma = true
		name, _ := json.Marshal(d.name) // a string is always encodable
		out = append(append(append(out, name...), ':'), d.value...)
	}
	return append(out, '}')
}
