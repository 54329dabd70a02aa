package pack

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/frontmatter"
)

// A shape is the schema of one kind of file: a JSON Schema in shapes/.
type shape string

const (
	manifestShape shape = "manifest"
	graphShape    shape = "graph"
	agentsShape   shape = "agents"
	stateShape    shape = "state"
	stepShape     shape = "step"
)

//go:embed shapes/*.json
var shapeFiles embed.FS

// shapes are compiled at the first use, and never changed.
var shapes = sync.OnceValue(compileShapes)

func compileShapes() map[shape]*jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	const base = "aibridge:///shapes/"
	all := []shape{manifestShape, graphShape, agentsShape, stateShape, stepShape}
	for _, name := range append([]shape{"common"}, all...) {
		text, err := shapeFiles.ReadFile("shapes/" + string(name) + ".json")
		if err != nil {
			panic(err) // it is part of the program
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			panic(err)
		}
		if err := c.AddResource(base+string(name)+".json", doc); err != nil {
			panic(err)
		}
	}
	compiled := make(map[shape]*jsonschema.Schema, len(all))
	for _, name := range all {
		compiled[name] = c.MustCompile(base + string(name) + ".json")
	}
	return compiled
}

// A Problem is one fault of a file.
type Problem struct {
	File   string `json:"file,omitempty"` // path in the package
	Path   string `json:"path,omitempty"` // in the file, such as nodes[2].type
	Reason string `json:"reason"`
}

// String is "file: path: reason".
func (p Problem) String() string {
	parts := slices.DeleteFunc([]string{p.File, p.Path, p.Reason}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// maxProblems is the greatest number of problems in an error.
const maxProblems = 20

// check lists the violations of a shape by a value, by path.
func (s shape) check(file string, value any) []Problem {
	err := shapes()[s].Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Problem{{File: file, Reason: "cannot be checked"}}
	}
	var problems []Problem
	leaves(invalid, func(at []string, reason string) {
		problems = append(problems, Problem{File: file, Path: pathOf(at), Reason: reason})
	})
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(problems)
}

func leaves(err *jsonschema.ValidationError, found func(at []string, reason string)) {
	for _, cause := range err.Causes {
		leaves(cause, found)
	}
	if len(err.Causes) > 0 {
		return
	}
	at := err.InstanceLocation
	below := func(name string) []string { return append(slices.Clone(at), name) }
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			found(below(name), "is missing")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			found(below(name), "is not known")
		}
	case *kind.Type:
		found(at, fmt.Sprintf("must be %s, is %s", strings.Join(k.Want, " or "), k.Got))
	case *kind.Enum:
		found(at, fmt.Sprintf("must be one of %v", k.Want))
	case *kind.Pattern:
		found(at, patternReason(k))
	case *kind.Format:
		found(at, "must be a "+k.Want+" such as 2026-01-31T12:00:00Z")
	case *kind.MinLength:
		found(at, "may not be empty")
	default:
		found(at, k.LocalizedString(message.NewPrinter(language.English)))
	}
}

func patternReason(k *kind.Pattern) string {
	switch {
	case strings.HasPrefix(k.Want, `^1\.1`):
		return fmt.Sprintf("must be 1.1 or 1.1.n, the versions of the format that are understood; it is %q", k.Got)
	case strings.HasPrefix(k.Want, "^[A-Za-z0-9]["):
		return fmt.Sprintf("must begin with a letter or digit and hold only these and . _ : -; it is %q", k.Got)
	}
	return fmt.Sprintf("%q does not match %s", k.Got, k.Want)
}

// pathOf formats a place in a value, as nodes[2].type.
func pathOf(at []string) string {
	var b strings.Builder
	for _, step := range at {
		if _, err := strconv.ParseUint(step, 10, 32); err == nil {
			b.WriteString("[" + step + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String()
}

// readJSON reads a JSON file of a shape. Duplicate names are refused, since different
// readers could interpret them differently.
func readJSON(s shape, file string, text []byte, into any) []Problem {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	_, err := dec.ReadValue()
	if err == nil {
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("there is something behind its end")
		}
	}
	if err != nil {
		return []Problem{{File: file, Reason: "is not JSON that can be read: " + strings.TrimPrefix(err.Error(), "jsontext: ")}}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []Problem{{File: file, Reason: "is not JSON that can be read"}}
	}
	if problems := s.check(file, value); problems != nil {
		return problems
	}
	if err := json.Unmarshal(text, into); err != nil {
		return []Problem{{File: file, Reason: "cannot be read: " + err.Error()}}
	}
	return nil
}

// readMeta reads the frontmatter of a file of a shape.
func readMeta(s shape, file string, doc *frontmatter.Document, into any) []Problem {
	values := normal(doc)
	text, err := json.Marshal(values)
	if err != nil {
		return []Problem{{File: file, Reason: "the frontmatter cannot be read"}}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []Problem{{File: file, Reason: "the frontmatter cannot be read"}}
	}
	if problems := s.check(file, value); problems != nil {
		return problems
	}
	if err := json.Unmarshal(text, into); err != nil {
		return []Problem{{File: file, Reason: "the frontmatter cannot be read"}}
	}
	return nil
}

// normal returns the values of a frontmatter, adapted to habits of YAML authors: blank
// fields are absent, and a version is a text even without quotes.
func normal(doc *frontmatter.Document) map[string]any {
	values := doc.Values()
	for key, v := range values {
		switch {
		case v == nil && key == "currentNodeId":
			values[key] = ""
		case v == nil, v == "" && key == "updatedAt":
			delete(values, key)
		}
	}
	if text, ok := doc.Text("schemaVersion"); ok {
		values["schemaVersion"] = text
	}
	return values
}

// ReadState reads the frontmatter of a workflow.md. The error is E_INVALID_FRONTMATTER
// without one, and E_SCHEMA_VALIDATION with details.errors if it has another shape.
func ReadState(text []byte) (State, error) {
	var st State
	doc, err := frontmatter.Parse(text)
	if err != nil {
		return st, err
	}
	if problems := readMeta(stateShape, "", doc, &st); problems != nil {
		return State{}, refusal(fault.SchemaValidation, "the frontmatter of workflow.md is not valid", problems)
	}
	return st, nil
}

// refusal is an error that lists problems.
func refusal(code fault.Code, message string, problems []Problem) *fault.Error {
	more := ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fault.Errorf(code, "%s: %s%s", message, problems[0], more).With("errors", problems[:min(len(problems), maxProblems)])
}
