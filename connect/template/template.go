// Package template is the part of Jinja for the payloads of plain devices, in Home
// Assistant's announcements and in binding files.
//
// A template has text, {{ expressions }}, {% if %} and {% set %}. It has neither
// loops nor macros and reaches nothing but its variables, and evaluating it is
// bounded by a [Budget]. Anything else is an error of [Parse] that names it:
// nothing is guessed.
package template

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of one template and of its results.
const (
	MaxSource = 8 << 10  // bytes of a template
	MaxOutput = 64 << 10 // bytes of a text that it makes, and of one on the way
	maxDepth  = 40       // of nested expressions and blocks
)

// Vars are the variables of a template: nil, bool, int64, float64, string, []any
// and map[string]any, as [FromJSON] yields them.
type Vars map[string]any

// ErrUndefined is wrapped by errors about a variable, or a member of one, that
// is not there.
var ErrUndefined = errors.New("is not there")

// A Template is a parsed template. It is immutable.
type Template struct {
	source string
	body   []piece
	single expr // of a template that is one expression
}

// A piece is a part of a template: text, an output or a block.
type piece interface {
	render(e *env, out *strings.Builder) error
}

// Parse reads a template.
func Parse(source string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("a template has at most %d bytes", MaxSource)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, end, err := p.body(false)
	if err != nil {
		return nil, err
	}
	if end != "" {
		return nil, fmt.Errorf("{%% %s %%} without {%% if %%}", end)
	}
	t := &Template{source: source, body: body}
	if len(body) == 1 {
		if o, ok := body[0].(output); ok {
			t.single = o.value
		}
	}
	return t, nil
}

// Source is the text that the template was parsed from.
func (t *Template) Source() string { return t.source }

// Constant reports whether the template is text alone.
func (t *Template) Constant() bool {
	for _, p := range t.body {
		if _, ok := p.(text); !ok {
			return false
		}
	}
	return true
}

// Must is [Parse] of a template that the program itself has.
func Must(source string) *Template {
	t, err := Parse(source)
	if err != nil {
		panic(err)
	}
	return t
}

// Render evaluates the template to text. A variable that is not there is an
// error that wraps [ErrUndefined].
func (t *Template) Render(vars Vars) (string, error) {
	return t.RenderEach(vars, asItIs)
}

// RenderEach is [Template.Render] with every value that is put into the text
// encoded before, or refused.
func (t *Template) RenderEach(vars Vars, encode func(string) (string, error)) (string, error) {
	e := newEnv(vars, NewBudget(MaxSteps))
	e.encode = encode
	return t.render(e)
}

func (t *Template) render(e *env) (string, error) {
	out := new(strings.Builder)
	if err := renderAll(t.body, e, out); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Value evaluates the template to the value of its expression if it is one
// expression, else to its text without the space around it.
func (t *Template) Value(vars Vars) (any, error) {
	return t.ValueWithin(NewBudget(MaxSteps), vars)
}

// ValueWithin is [Template.Value] for the steps of a budget.
func (t *Template) ValueWithin(b *Budget, vars Vars) (any, error) {
	e := newEnv(vars, b)
	if t.single != nil {
		v, err := e.value(t.single)
		if err == nil && v == undefined {
			err = fmt.Errorf("%w", ErrUndefined)
		}
		return v, err
	}
	text, err := t.render(e)
	return strings.TrimSpace(text), err
}

// Single reports whether the template is one expression.
func (t *Template) Single() bool { return t.single != nil }

// Expression is the text of the expression of a template that is one.
func (t *Template) Expression() string {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(t.source), "{{"), "}}")
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(inner, "-"), "-"))
}

// Variables are the names of the variables that the template uses and does not
// set itself.
func (t *Template) Variables() []string {
	seen := &names{known: map[string]bool{}, set: map[string]bool{}}
	for _, p := range t.body {
		visitPiece(p, seen)
	}
	return seen.list
}

func renderAll(pieces []piece, e *env, out *strings.Builder) error {
	for _, p := range pieces {
		if err := p.render(e, out); err != nil {
			return err
		}
		if out.Len() > MaxOutput {
			return tooLong()
		}
	}
	return nil
}

func tooLong() error { return fmt.Errorf("the text is longer than %d bytes", MaxOutput) }

// A text stands for itself.
type text string

func (t text) render(e *env, out *strings.Builder) error {
	out.WriteString(string(t))
	return e.budget.spend(string(t))
}

// An output is {{ expression }}.
type output struct{ value expr }

func (o output) render(e *env, out *strings.Builder) error {
	v, err := e.value(o.value)
	if err != nil {
		return err
	}
	s, err := show(v)
	if err != nil {
		return err
	}
	s, err = e.encode(s)
	out.WriteString(s)
	return err
}

// A set is {% set name = expression %}.
type set struct {
	name  string
	value expr
}

func (s set) render(e *env, _ *strings.Builder) error {
	v, err := e.value(s.value)
	if err != nil {
		return err
	}
	e.set[s.name] = v
	return nil
}

// A choice is {% if %} with its branches. The one without a condition is the
// last.
type choice []branch

type branch struct {
	when expr // nil: else
	body []piece
}

func (c choice) render(e *env, out *strings.Builder) error {
	for _, b := range c {
		if b.when != nil {
			v, err := e.value(b.when)
			if err != nil {
				return err
			}
			if !truth(v) {
				continue
			}
		}
		return renderAll(b.body, e, out)
	}
	return nil
}
