package schema

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A Field is one place in a type, as people want to read about it.
type Field struct {
	Path     string // skill.capabilities[].name, labels.*
	Type     string // string, integer, list of strings, any
	Limits   string // "1 to 64 characters", "one of a, b"; "" for none
	Required bool   // in the object that holds it
	Default  string // JSON, "" for none
	Doc      string
}

// Fields lists the fields of the type and of the structs in it, each before
// those inside it. They must not be changed.
func (c *Codec) Fields() []Field { return c.fields }

// collect adds the fields inside a node.
func collect(all *[]Field, path string, n node) {
	switch n := n.(type) {
	case *structNode:
		for i := range n.fields {
			f := &n.fields[i]
			o := f.node.schema()
			at := strings.TrimPrefix(path+"."+f.name, ".")
			*all = append(*all, Field{
				Path: at, Type: typeOf(f.node), Limits: limitsOf(o), Required: !f.optional,
				Default: string(f.fallback), Doc: f.doc,
			})
			collect(all, at, f.node)
		}
	case *shortNode:
		collect(all, path, n.structNode)
	case pointerNode:
		collect(all, path, n.inner)
	case *listNode:
		collect(all, path+"[]", n.items)
	case *mapNode:
		collect(all, path+".*", n.values)
	}
}

// typeOf names the type of a node in words.
func typeOf(n node) string {
	switch n := n.(type) {
	case *shortNode:
		return "string or object"
	case *structNode, againNode:
		return "object"
	case pointerNode:
		return typeOf(n.inner)
	case *listNode:
		return "list of " + plural(typeOf(n.items))
	case *mapNode:
		return "object of " + plural(typeOf(n.values))
	case bytesNode:
		return "base64"
	case timeNode:
		return "time"
	}
	if t, ok := n.schema().get("type").(string); ok {
		return t
	}
	return "any"
}

func plural(name string) string {
	switch name {
	case "any", "base64":
		return name
	case "string or object":
		return "strings or objects"
	}
	if first, rest, ok := strings.Cut(name, " "); ok { // list of …
		return first + "s " + rest
	}
	return name + "s"
}

// limitsOf is the demands of a schema beyond the type, in words.
func limitsOf(o *object) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	between := func(min, max, what string) {
		low, high := o.get(min), o.get(max)
		switch {
		case low != nil && low == high:
			add("%v%s", low, what)
		case low != nil && high != nil:
			add("%v to %v%s", low, high, what)
		case high != nil:
			add("at most %v%s", high, what)
		case low != nil && fmt.Sprint(low) != "0":
			add("at least %v%s", low, what)
		}
	}
	between("minLength", "maxLength", " characters")
	between("minItems", "maxItems", " items")
	between("minProperties", "maxProperties", " entries")
	between("minimum", "maximum", "")
	if enum := o.get("enum"); enum != nil {
		add("one of %s", strings.Trim(strings.ReplaceAll(asJSON(enum), ",", ", "), "[]"))
	}
	if pattern, ok := o.get("pattern").(string); ok && pattern != namePattern {
		add("matches `%s`", pattern)
	}
	return strings.Join(all, "; ")
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
