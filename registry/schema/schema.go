// Package schema checks values against the JSON Schemas that skills declare
// for their parameters and results.
//
// Schemas come from agents, so nothing about them is trusted: they are
// bounded in size and depth, load nothing from anywhere, and a schema whose
// checking could take more than a bounded time is refused when it is
// compiled, not met when it is used (see cost.go).
//
// Two validators share the work. A valid value of a plain schema – types,
// properties, items, lists of scalars, bounds and lengths – is recognized in
// one pass over its text (see fast.go). All else, and with it every
// violation, is up to the library.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unique"

	"github.com/aibridge/aibridge/internal/schemaword"
	"github.com/aibridge/aibridge/protocol"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The limits of one schema.
const (
	MaxBytes = 16 << 10 // of its text, without white space
	MaxDepth = 32       // of nested objects and arrays in its text

	maxWeight = 10_000    // evaluations at one place of a value, see weigh
	maxWork   = 4_000_000 // evaluations in a whole value
)

// A Source is the text of a schema. Equal texts share their memory and
// compare equal, however many skills declare them. The zero Source is no
// schema at all.
type Source struct{ text unique.Handle[string] }

// NewSource returns the schema with the given JSON text. It does not check
// that it is a schema; [Compile] does.
func NewSource(text []byte) (Source, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return Source{}, err
	}
	return Source{unique.Make(b.String())}, nil
}

// IsZero reports whether there is no schema.
func (s Source) IsZero() bool { return s == Source{} }

// String is the text, "" without one.
func (s Source) String() string {
	if s.IsZero() {
		return ""
	}
	return s.text.Value()
}

// MarshalJSON writes the schema itself, null without one.
func (s Source) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return []byte(s.text.Value()), nil
}

// UnmarshalJSON reads a schema; null is none.
func (s *Source) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Source{}
		return nil
	}
	read, err := NewSource(text)
	*s = read
	return err
}

// JSONSchema describes a source as a parameter of a command.
func (Source) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":["object","boolean"],"description":"a JSON Schema, of at most 16 KiB and without references to other documents"}`)
}

// A Schema is compiled and ready to check values. It is immutable.
type Schema struct {
	compiled *jsonschema.Schema // nil: everything is valid
	fast     *node              // nil: the schema is not plain
	weight   int
	misspelt []schemaword.Misspelling
}

// Misspelt lists the keywords that are probably misspelt, at most ten. They
// are passed over.
func (s *Schema) Misspelt() []schemaword.Misspelling { return s.misspelt }

// Formats is the meaning of the keyword format.
type Formats bool

// The meanings of the keyword format.
const (
	Annotate Formats = false // as the schema's draft says: nothing, since 2019-09
	Assert   Formats = true  // values must have the format
)

// Compile checks a source and makes it ready for use. The error names the fault of the
// schema in a few words.
func Compile(src Source, formats Formats) (*Schema, error) {
	if src.IsZero() {
		return &Schema{}, nil
	}
	text := src.String()
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), MaxBytes)
	}
	doc, err := decode([]byte(text))
	if err != nil {
		return nil, err
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("must be an object")
	}
	if depth(doc) > MaxDepth {
		return nil, fmt.Errorf("is nested more than %d levels deep", MaxDepth)
	}
	compiled, err := compile(doc, formats)
	if err != nil {
		return nil, err
	}
	weight, err := weigh(compiled)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled: compiled, fast: plan(compiled), weight: weight, misspelt: schemaword.Check([]byte(text))}, nil
}

// location is the place where a schema pretends to live: relative references stay
// inside it.
const location = "aibridge:///schema"

func compile(doc any, formats Formats) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	if formats == Assert {
		c.AssertFormat()
	}
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(newPatterns().compile)
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(location)
	if err == nil {
		return compiled, nil
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var at *jsonschema.ValidationError
		if errors.As(invalid.Err, &at) {
			v := violationOf(at)
			return nil, fmt.Errorf("is not a JSON Schema: %s", v.at("schema"))
		}
	}
	var outside *jsonschema.LoadURLError
	if errors.As(err, &outside) {
		return nil, fmt.Errorf("refers to %.200q: %w", outside.URL, outside.Err)
	}
	return nil, err
}

// noLoader refuses references out of the schema.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// Validate checks a JSON value, which must be well formed. It returns the violation, nil
// for a valid value.
func (s *Schema) Validate(value []byte) *Violation {
	if s.compiled == nil {
		return nil
	}
	if s.weight*(len(value)/8+1) > maxWork {
		return &Violation{Reason: "is too large to be checked against its schema"}
	}
	if s.fast != nil && s.fast.accepts(value) {
		return nil
	}
	return s.explain(value)
}

// explain is Validate by the library alone.
func (s *Schema) explain(value []byte) *Violation {
	v, err := decode(value)
	if err != nil {
		return &Violation{Reason: err.Error()}
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		v := violationOf(invalid)
		return &v
	}
	return &Violation{Reason: err.Error()}
}

// Check is Validate for the parameters of a command: a violation becomes a 1001 with the
// path of the parameter.
func (s *Schema) Check(params json.RawMessage) error {
	v := s.Validate(params)
	if v == nil {
		return nil
	}
	path := strings.TrimPrefix(v.In(""), ".")
	if path == "" {
		path = "params"
	}
	return protocol.InvalidParam(path, v.Reason)
}
