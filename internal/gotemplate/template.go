// Package gotemplate fills in templates with the syntax of Go's text/template, which
// parses them, and lacks two things of it: methods and functions of the data. A method
// that is looked up by its name has the linker keep every exported method of every
// type, which made the program a twelfth larger; see docs/decisions/0096.
package gotemplate

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"text/template/parse"
)

// A Template is a parsed template with those that it defines. It may be executed by
// several goroutines at once.
type Template struct {
	name   string
	trees  map[string]*parse.Tree
	escape func(string) string // what a value becomes; nil for itself
}

// HTML is a value that a template of HTML writes as it is.
type HTML string

// Parse parses a template of plain text. Errors begin with "template: NAME:LINE:".
func Parse(name, text string) (*Template, error) {
	trees, err := parse.Parse(name, text, "", "", names)
	if err != nil {
		return nil, err
	}
	return &Template{name: name, trees: trees}, nil
}

// ParseHTML parses a template of HTML. Values are escaped for text and for attributes in
// quotes, other places are not for values: those of addresses must be addresses that are
// safe to follow, and there is no escaping for scripts and styles.
func ParseHTML(name, text string) (*Template, error) {
	t, err := Parse(name, text)
	if err == nil {
		t.escape = escapeHTML
	}
	return t, err
}

// Must returns the template of Parse or ParseHTML, or panics: for templates that are
// constants.
func Must(t *Template, err error) *Template {
	if err != nil {
		panic(err)
	}
	return t
}

// Execute fills the template in. Data is a struct, a map with keys that are strings, or
// whatever the template does with its dot. After an error a part of the text may have
// been written.
func (t *Template) Execute(w io.Writer, data any) error {
	dot := reflect.ValueOf(data)
	e := &execution{Template: t, tree: t.trees[t.name], w: w, variables: []variable{{"$", dot}}}
	_, err := e.walk(dot, e.tree.Root)
	return err
}

// maxDepth bounds templates that include each other.
const maxDepth = 1000

// An execution is one of a template, or of one that it includes.
type execution struct {
	*Template
	tree      *parse.Tree
	w         io.Writer
	variables []variable // those declared last are last
	depth     int
}

type variable struct {
	name  string
	value reflect.Value
}

// A course says how a loop goes on after a part of its body.
type course int

const (
	onward course = iota
	breaks
	continues
)

// fault is an error with the place in the template that it is about.
func (e *execution) fault(node parse.Node, format string, args ...any) error {
	place, context := e.tree.ErrorContext(node)
	return fmt.Errorf("template: %s: executing %q at <%s>: %w", place, e.tree.Name, context, fmt.Errorf(format, args...))
}

// walk writes a part of the template.
func (e *execution) walk(dot reflect.Value, node parse.Node) (course, error) {
	switch n := node.(type) {
	case *parse.TextNode:
		_, err := e.w.Write(n.Text)
		return onward, err
	case *parse.ActionNode: // its variables stay until the end of the block
		value, err := e.pipeline(dot, n.Pipe)
		if err == nil && len(n.Pipe.Decl) == 0 {
			err = e.print(n, value)
		}
		return onward, err
	case *parse.ListNode:
		for _, part := range n.Nodes {
			if c, err := e.walk(dot, part); c != onward || err != nil {
				return c, err
			}
		}
		return onward, nil
	case *parse.IfNode:
		return e.branch(dot, &n.BranchNode)
	case *parse.WithNode:
		return e.branch(dot, &n.BranchNode)
	case *parse.RangeNode:
		return e.loop(dot, n)
	case *parse.TemplateNode:
		return onward, e.include(dot, n)
	case *parse.BreakNode:
		return breaks, nil
	case *parse.ContinueNode:
		return continues, nil
	case *parse.CommentNode:
		return onward, nil
	}
	return onward, e.fault(node, "unknown part %s", node)
}

// branch writes the body of an if or a with, or what follows its else.
func (e *execution) branch(dot reflect.Value, n *parse.BranchNode) (course, error) {
	defer e.forget(len(e.variables))
	value, err := e.pipeline(dot, n.Pipe)
	switch {
	case err != nil:
		return onward, err
	case !truth(value) && n.ElseList == nil:
		return onward, nil
	case !truth(value):
		return e.walk(dot, n.ElseList)
	case n.NodeType == parse.NodeWith:
		return e.walk(value, n.List)
	}
	return e.walk(dot, n.List)
}

// forget takes the variables away that were declared since there were so many.
func (e *execution) forget(count int) { e.variables = e.variables[:count] }

// loop writes the body of a range once for each element, or what follows its else.
func (e *execution) loop(dot reflect.Value, n *parse.RangeNode) (course, error) {
	defer e.forget(len(e.variables))
	value, err := e.pipeline(dot, n.Pipe)
	if err != nil {
		return onward, err
	}
	elements, err := elementsOf(value, len(n.Pipe.Decl))
	if err != nil {
		return onward, e.fault(n, "%w", err)
	}
	count := len(e.variables)
	ran := false
	for key, element := range elements {
		ran = true
		e.bind(n.Pipe, key, element)
		c, err := e.walk(element, n.List)
		e.forget(count)
		if err != nil {
			return onward, err
		}
		if c == breaks {
			break
		}
	}
	if !ran && n.ElseList != nil {
		return e.walk(dot, n.ElseList)
	}
	return onward, nil
}

// bind gives the variables of a range their values for one element. The pipeline has
// declared them already; an assignment sets others.
func (e *execution) bind(pipe *parse.PipeNode, key, element reflect.Value) {
	values := []reflect.Value{element}
	if len(pipe.Decl) > 1 {
		values = []reflect.Value{key, element}
	}
	for i, declared := range pipe.Decl {
		e.variable(declared.Ident[0]).value = values[i]
	}
}

// variable is the one of a name that was declared last, nil for none.
func (e *execution) variable(name string) *variable {
	for i := len(e.variables) - 1; i >= 0; i-- {
		if e.variables[i].name == name {
			return &e.variables[i]
		}
	}
	return nil
}

// include writes another template, which sees no variables of this one.
func (e *execution) include(dot reflect.Value, n *parse.TemplateNode) error {
	tree := e.trees[n.Name]
	if tree == nil {
		return e.fault(n, "template %q not defined", n.Name)
	}
	if e.depth == maxDepth {
		return e.fault(n, "exceeded maximum template depth (%d)", maxDepth)
	}
	value, err := e.pipeline(dot, n.Pipe)
	if err != nil {
		return err
	}
	inner := &execution{Template: e.Template, tree: tree, w: e.w, variables: []variable{{"$", value}}, depth: e.depth + 1}
	_, err = inner.walk(value, tree.Root)
	return err
}

// errUnprintable is about functions and channels.
var errUnprintable = errors.New("can't print")

// print writes a value.
func (e *execution) print(n *parse.ActionNode, value reflect.Value) error {
	shown, ok := printable(value)
	if !ok {
		return e.fault(n, "%w %s of type %s", errUnprintable, n, value.Type())
	}
	if _, raw := shown.(HTML); e.escape == nil || raw {
		_, err := fmt.Fprint(e.w, shown)
		return err
	}
	_, err := io.WriteString(e.w, e.escape(fmt.Sprint(shown)))
	return err
}
