package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/commands/schema"
)

// The bounds of arguments.
const (
	maxArguments = 1 << 20 // bytes, of a tool without a limit of its own
	maxDepth     = 64      // of nesting
)

// The notes on repaired arguments. Other packages depend on them.
const (
	noteNumberToBoolean = "number coerced to boolean"
	noteStringToBoolean = "string coerced to boolean"
	noteStringToInteger = "string coerced to integer"
	noteTruncated       = "number truncated to integer"
	noteStringToNumber  = "string coerced to number"
	noteLiteral         = "non-string literal retained"
	noteStringParsed    = "string parsed as JSON"
	noteWrapped         = "scalar wrapped in a list"
	noteEnumCase        = "value brought to its declared form"
	noteBadURI          = "not an absolute URI, retained"
	noteControl         = "unescaped control character in a string"
	noteDefinition      = "tool_definition_missing"
	noteUnknown         = "unknown_parameter:"
	noteTwice           = "duplicate_parameter:"

	faultMissing = "missing_required:"
	faultObject  = "arguments_must_be_object"
	faultJSON    = "json_parse_error:"
)

// A Warning is a note on a change or an oddity of one argument or of all.
type Warning struct {
	Parameter string // "" for the arguments as a whole
	Text      string
}

// Parsed holds the arguments that a model wrote, decoded and coerced.
type Parsed struct {
	Arguments map[string]any             // by parameter
	JSON      json.RawMessage            // the same as an object; nil if there is none
	Unknown   map[string]json.RawMessage // undeclared parameters, which were left out; nil for none
	Warnings  []Warning
	Faults    []Fault // arguments that cannot be read; the call may not run then, but see Declaration.Forgiving
}

// Warning is all warnings, joined by "; ".
func (p *Parsed) Warning() string { return strings.Join(p.texts(), "; ") }

func (p *Parsed) texts() []string {
	if len(p.Warnings) == 0 {
		return nil
	}
	list := make([]string, len(p.Warnings))
	for i, w := range p.Warnings {
		list[i] = w.Text
	}
	return list
}

// Error is all faults, joined by "; ", "" without any.
func (p *Parsed) Error() string {
	if len(p.Faults) == 0 {
		return ""
	}
	list := make([]string, len(p.Faults))
	for i, f := range p.Faults {
		list[i] = f.Reason
	}
	return strings.Join(list, "; ")
}

// Refused reports whether a call may not run with the arguments: a required one cannot
// be read, or an optional one cannot and the tool is not forgiving.
func (p *Parsed) Refused(forgiving bool) bool {
	for _, f := range p.Faults {
		if f.Required || !forgiving {
			return true
		}
	}
	return false
}

// Missing are the required parameters that the arguments lack. It is nil if there is
// any other fault, or an unknown parameter, which may be a missing one by another name.
func (p *Parsed) Missing() []string {
	if len(p.Unknown) > 0 {
		return nil
	}
	var names []string
	for _, f := range p.Faults {
		if f.Parameter == "" || f.Reason != faultMissing+f.Parameter {
			return nil
		}
		names = append(names, f.Parameter)
	}
	return names
}

// Parse reads the arguments of a call by the declaration of its tool: leniently, with a
// warning for every change. Without a tool it reads any object. It does not retain raw.
func Parse(t *Tool, raw []byte) Parsed {
	p := parser{data: raw, most: t.maxArguments()}
	shape := &node{kind: objectKind, open: true}
	switch {
	case t == nil:
		p.note(noteDefinition)
	case t.prepare().err != nil:
		p.note(noteDefinition)
	default:
		shape, p.strict = t.prepare().shape, t.Strict
	}
	p.document(shape)
	p.Arguments = p.result
	if p.Arguments == nil {
		p.Arguments = map[string]any{}
	}
	if p.strict {
		p.refuseWarnings()
	}
	return p.Parsed
}

// refuseWarnings turns warnings into faults: arguments of a strict tool are valid or
// refused.
func (p *parser) refuseWarnings() {
	for _, w := range p.Warnings {
		reason := w.Text
		if w.Parameter != "" && !strings.HasSuffix(reason, ":"+w.Parameter) {
			reason = w.Parameter + ": " + reason
		}
		p.Faults = append(p.Faults, Fault{Parameter: w.Parameter, Reason: reason, Required: true})
	}
	p.Warnings = nil
}

// document reads all arguments.
func (p *parser) document(shape *node) {
	if len(p.data) > p.most {
		p.whole(faultJSON + fmt.Sprintf("more than %d bytes", p.most))
		return
	}
	p.unfence()
	if !p.space() {
		p.whole(faultJSON + p.wrong)
		return
	}
	if p.pos == len(p.data) {
		p.JSON = json.RawMessage("{}")
		p.missing(shape)
		return
	}
	switch p.peek() {
	case '{':
	case '"':
		p.encodedTwice(shape)
		return
	default:
		p.mustBeObject()
		return
	}
	if p.arguments(shape) && !p.atEnd() {
		p.unexpected()
	}
	if p.wrong != "" {
		p.abandon()
		p.whole(faultJSON + p.wrong)
	}
}

// encodedTwice reads arguments that are a JSON string of an object.
func (p *parser) encodedTwice(shape *node) {
	text, ok := p.stringToken()
	if !ok || !p.atEnd() {
		p.unexpected()
		p.whole(faultJSON + p.wrong)
		return
	}
	p.data, p.pos = []byte(text), 0
	if !p.space() || p.peek() != '{' || !p.arguments(shape) || !p.atEnd() {
		p.abandon()
		p.whole(faultObject)
		return
	}
	p.note(noteStringParsed)
}

// mustBeObject records the fault of arguments that are not an object.
func (p *parser) mustBeObject() {
	if p.skip() && p.atEnd() {
		p.whole(faultObject)
		return
	}
	p.unexpected()
	p.whole(faultJSON + p.wrong)
}

// whole records a fault of the arguments as a whole.
func (p *parser) whole(reason string) {
	p.Faults = append(p.Faults, Fault{Reason: reason, Required: true})
}

// abandon drops the values read so far, as the rest of the arguments is broken.
func (p *parser) abandon() {
	p.result, p.Unknown, p.Warnings, p.Faults, p.JSON = nil, nil, nil, nil, nil
}

// Never changed.
var (
	fence = []byte("```")
	colon = []byte(`":`) // behind most names
)

// unfence removes the code fence that some models put around JSON.
func (p *parser) unfence() {
	inner, begun := bytes.CutPrefix(bytes.TrimSpace(p.data), fence)
	inner, ended := bytes.CutSuffix(inner, fence)
	if begun && ended {
		p.data = bytes.TrimPrefix(inner, []byte("json"))
	}
}

// arguments reads the object of all arguments. It reports false if the object is
// broken.
func (p *parser) arguments(shape *node) bool {
	p.out = make([]byte, 0, len(p.data)+16)
	p.result = make(map[string]any, min(bytes.Count(p.data, colon), maxParameters))
	p.out = append(p.out, '{')
	if n := len(shape.members.list); n <= len(p.few) {
		p.seen = p.few[:n]
	} else {
		p.seen = make([]bool, n)
	}
	ok := p.object(&shape.members, func(name string) bool { return p.argument(shape, name) })
	if !ok {
		return false
	}
	p.out = append(p.out, '}')
	p.JSON = p.out
	if p.twice {
		p.JSON, _ = json.Marshal(p.result)
	}
	p.missing(shape)
	return true
}

// argument reads one of the arguments.
func (p *parser) argument(shape *node, name string) bool {
	p.at = name
	defer func() { p.at = "" }()
	i, known := shape.members.find(name)
	if !known && !shape.open {
		start := p.pos
		if !p.skip() {
			return false
		}
		p.note(noteUnknown + name)
		if p.Unknown == nil {
			p.Unknown = make(map[string]json.RawMessage)
		}
		p.Unknown[name] = json.RawMessage(string(p.data[start:p.pos]))
		return true
	}
	value, required := shape.rest, false
	if known {
		value, required = shape.members.list[i].node, shape.members.list[i].required
	}
	if p.word("null") && !value.takesNull() {
		p.pos += len("null")
		return true // some providers have models write null for an absent value
	}
	if _, twice := p.result[name]; twice {
		p.note(noteTwice + name)
		p.twice = true
	}
	if known {
		p.seen[i] = true
	}
	mark := len(p.out)
	p.key(name)
	got, ok := p.value(value)
	if !ok {
		return false
	}
	if p.fault != "" {
		p.Faults = append(p.Faults, Fault{Parameter: name, Reason: p.fault, Required: required})
		p.fault, p.out = "", p.out[:mark]
		return true
	}
	p.result[name] = got
	return true
}

// missing records the required arguments that are absent.
func (p *parser) missing(shape *node) {
	for i := range shape.members.list {
		m := &shape.members.list[i]
		if !m.required || p.seen != nil && p.seen[i] {
			continue
		}
		reason := faultMissing + m.name
		p.Faults = append(p.Faults, Fault{Parameter: m.name, Reason: reason, Required: true})
	}
}

// meant returns hints to the declared parameters that unknown ones probably stand for.
func (p *Parsed) meant(shape *node) (hints []string) {
	for _, w := range p.Warnings {
		if !strings.HasPrefix(w.Text, noteUnknown) {
			continue
		}
		names := func(yield func(string) bool) {
			for i := range shape.members.list {
				if name := shape.members.list[i].name; p.Arguments[name] == nil && !yield(name) {
					return
				}
			}
		}
		if near, ok := schema.Nearest(w.Parameter, names); ok {
			hints = append(hints, fmt.Sprintf("%q may mean %q", w.Parameter, near))
		}
	}
	return hints
}
