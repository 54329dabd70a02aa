package binding

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/connect/template"
)

// mostErrors bounds the faults that are told of one file.
const mostErrors = 20

// A Fault is something wrong in a file.
type Fault struct {
	File   string
	Line   int
	Field  string // such as devices[0].skills[0].state.on.topic
	Reason string
}

func (f *Fault) Error() string {
	if f.Field == "" {
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Field, f.Reason)
}

// A reader takes a document apart and gathers its faults.
type reader struct {
	file   string
	root   string // of the bridge's own topics
	faults []error
}

func (r *reader) fail(at value, format string, args ...any) {
	if len(r.faults) < mostErrors {
		r.faults = append(r.faults, &Fault{r.file, at.node.Line, at.field, fmt.Sprintf(format, args...)})
	}
}

func (r *reader) err() error { return errors.Join(r.faults...) }

// A value is a node of the document with its place.
type value struct {
	node  *yaml.Node
	field string
}

func (v value) is(kind yaml.Kind) bool { return v.node != nil && v.node.Kind == kind }

// A key handles the value of a key of an object.
type key struct {
	name string
	take func(value)
}

// object takes an object of which the keys are known.
func (r *reader) object(v value, keys ...key) {
	if !v.is(yaml.MappingNode) {
		r.fail(v, "must be an object with keys such as %s", keys[0].name)
		return
	}
	for name, inner := range r.pairs(v) {
		at := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if at >= 0 {
			keys[at].take(inner)
			continue
		}
		reason := "there is no such key"
		if near, ok := schema.Nearest(name, func(yield func(string) bool) {
			for _, k := range keys {
				if !yield(k.name) {
					return
				}
			}
		}); ok {
			reason += "; did you mean " + near + "?"
		}
		r.fail(inner, "%s", reason)
	}
}

// pairs yields the keys of an object with their values, in order.
func (r *reader) pairs(v value) func(yield func(string, value) bool) {
	return func(yield func(string, value) bool) {
		seen := map[string]bool{}
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			name, inner := v.node.Content[i], value{v.node.Content[i+1], v.field + "." + v.node.Content[i].Value}
			inner.field = strings.TrimPrefix(inner.field, ".")
			if seen[name.Value] {
				r.fail(inner, "is there twice")
				continue
			}
			seen[name.Value] = true
			if inner.node.Kind == yaml.AliasNode {
				r.fail(inner, "anchors are not understood: write it out")
				continue
			}
			if !yield(name.Value, inner) {
				return
			}
		}
	}
}

// list takes the items of a list of at most so many.
func (r *reader) list(v value, most int, take func(value)) {
	if !v.is(yaml.SequenceNode) {
		r.fail(v, "must be a list")
		return
	}
	if len(v.node.Content) > most {
		r.fail(v, "has %d items; %d is the most", len(v.node.Content), most)
		return
	}
	for i, item := range v.node.Content {
		take(value{item, fmt.Sprintf("%s[%d]", v.field, i)})
	}
}

// text takes a text, or a number or truth value as one.
func (r *reader) text(into *string, most int) func(value) {
	return func(v value) {
		switch {
		case !v.is(yaml.ScalarNode) || v.node.Tag == "!!null":
			r.fail(v, "must be a text")
		case len(v.node.Value) > most:
			r.fail(v, "has more than %d bytes", most)
		default:
			*into = v.node.Value
		}
	}
}

func (r *reader) flag(into *bool) func(value) {
	return func(v value) {
		if v.node.Tag != "!!bool" || v.node.Decode(into) != nil {
			r.fail(v, "must be true or false")
		}
	}
}

// oneOf takes one of some words.
func (r *reader) oneOf(into *string, words ...string) func(value) {
	return func(v value) {
		r.text(into, 64)(v)
		if v.is(yaml.ScalarNode) && !slices.Contains(words, v.node.Value) {
			r.fail(v, "%q is none of %s", v.node.Value, strings.Join(words, ", "))
		}
	}
}

func (r *reader) duration(into *time.Duration, most time.Duration) func(value) {
	return func(v value) {
		var text string
		r.text(&text, 32)(v)
		d, err := time.ParseDuration(text)
		if text == "" || err != nil || d <= 0 || d > most {
			r.fail(v, "%q is no time of at most %s, such as 5s", text, most)
			return
		}
		*into = d
	}
}

// template takes a template that uses no variables but those that are allowed.
func (r *reader) template(into **template.Template, allowed func(name string) bool) func(value) {
	return func(v value) {
		var text string
		r.text(&text, template.MaxSource)(v)
		t, err := template.Parse(text)
		if err != nil {
			r.fail(v, "%v", err)
			return
		}
		if r.variables(v, t, allowed) {
			*into = t
		}
	}
}

func (r *reader) variables(v value, t *template.Template, allowed func(name string) bool) bool {
	for _, name := range t.Variables() {
		if !allowed(name) {
			r.fail(v, "there is no %s that a template could use here", name)
			return false
		}
	}
	return true
}

// plain is the text of a node, as template.FromJSON has it; texts go through leaf.
func (r *reader) plain(v value, depth int, leaf func(value) any) any {
	switch {
	case depth > 16:
		r.fail(v, "is nested too deep")
	case v.is(yaml.AliasNode):
		r.fail(v, "anchors are not understood: write it out")
	case v.is(yaml.MappingNode):
		object := map[string]any{}
		for name, inner := range r.pairs(v) {
			object[name] = r.plain(inner, depth+1, leaf)
		}
		return object
	case v.is(yaml.SequenceNode):
		list := []any{}
		for i, item := range v.node.Content {
			list = append(list, r.plain(value{item, fmt.Sprintf("%s[%d]", v.field, i)}, depth+1, leaf))
		}
		return list
	case v.node.Tag == "!!str":
		return leaf(v)
	default:
		return r.scalar(v)
	}
	return nil
}

// scalar is a number, a truth value, null or a text.
func (r *reader) scalar(v value) any {
	switch v.node.Tag {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if v.node.Decode(&b) == nil {
			return b
		}
	case "!!int":
		if i, err := strconv.ParseInt(v.node.Value, 0, 64); err == nil {
			return i
		}
	case "!!float":
		if f, err := strconv.ParseFloat(v.node.Value, 64); err == nil && f == f && f-f == 0 {
			return f
		}
	case "!!str":
		return v.node.Value
	}
	r.fail(v, "%q is no value of JSON", v.node.Value)
	return nil
}

// pathRule is a path into JSON: names and places, $ in front if one likes.
var pathRule = regexp.MustCompile(`^(?:\$\.?)?((?:[A-Za-z_][A-Za-z0-9_]*|\[-?[0-9]{1,6}\]|\['[^'\\]{1,64}'\])(?:\.[A-Za-z_][A-Za-z0-9_]*|\[-?[0-9]{1,6}\]|\['[^'\\]{1,64}'\])*)$`)

// Path is the template that reads a path: state, a.b[0].c, ['a name'].
func Path(path string) (*template.Template, error) {
	found := pathRule.FindStringSubmatch(path)
	if found == nil {
		return nil, fmt.Errorf("%.60q is no path such as state, color.x, list[0] or ['a name']", path)
	}
	dot := "."
	if found[1][0] == '[' {
		dot = ""
	}
	return template.Parse("{{ value_json" + dot + found[1] + " }}")
}
