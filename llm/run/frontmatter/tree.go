package frontmatter

import (
	"math"

	"go.yaml.in/yaml/v3"
)

// flatten checks the mapping of a document and expands its aliases and merge keys.
func flatten(top *yaml.Node) (*yaml.Node, error) {
	if len(top.Content) != 1 {
		return nil, invalid("the frontmatter is empty")
	}
	f := &flattener{within: make(map[*yaml.Node]bool)}
	root := top.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		root.Kind, root.Tag, root.Value, root.Style = yaml.MappingNode, "!!map", "", 0
	}
	if root.Kind != yaml.MappingNode {
		return nil, invalid("the frontmatter is not a mapping of keys and values")
	}
	root, err := f.node(root, 1)
	if err != nil {
		return nil, err
	}
	top.Content[0] = root
	return root, nil
}

type flattener struct {
	nodes  int
	within map[*yaml.Node]bool // the nodes that are being visited, through aliases too
	copies int                 // number of enclosing aliases
}

// node checks a node and returns it with its aliases expanded.
func (f *flattener) node(n *yaml.Node, depth int) (*yaml.Node, error) {
	if f.nodes++; f.nodes > MaxNodes {
		return nil, invalid("the frontmatter has more than %d values", MaxNodes)
	}
	if depth > MaxDepth {
		return nil, invalid("the frontmatter is nested more than %d levels deep", MaxDepth)
	}
	if n.Kind == yaml.AliasNode {
		f.copies++
		target, err := f.node(n.Alias, depth)
		f.copies--
		return target, err
	}
	if f.within[n] {
		return nil, invalid("line %d: an alias stands for something that it is part of", n.Line)
	}
	f.within[n] = true
	defer delete(f.within, n)

	// A copy, because aliases read the original again.
	c := *n
	c.Content, c.Anchor = nil, ""
	if f.copies > 0 {
		c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	}
	return &c, f.content(&c, n, depth)
}

// content fills a copy with the contents of a node.
func (f *flattener) content(c, n *yaml.Node, depth int) error {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			flat, err := f.node(item, depth+1)
			if err != nil {
				return err
			}
			c.Content = append(c.Content, flat)
		}
	case yaml.MappingNode:
		return f.mapping(c, n, depth)
	}
	return nil
}

func (f *flattener) mapping(c, n *yaml.Node, depth int) error {
	seen := make(map[string]bool, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		merge := key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge"
		key, err := f.node(key, depth+1)
		if err != nil {
			return err
		}
		if key.Kind != yaml.ScalarNode {
			return invalid("line %d: a key is no plain value", n.Line)
		}
		if seen[key.Value] {
			return invalid("line %d: the key %q is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		flat, err := f.node(value, depth+1)
		if err != nil {
			return err
		}
		if merge {
			merged = append(merged, flat)
			continue
		}
		c.Content = append(c.Content, key, flat)
	}
	for _, m := range merged {
		if err := merge(c, m, seen); err != nil {
			return err
		}
	}
	return nil
}

// merge adds the keys of a merge key's mappings that are not present yet.
func merge(into, from *yaml.Node, seen map[string]bool) error {
	sources := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		sources = from.Content
	}
	for _, s := range sources {
		if s.Kind != yaml.MappingNode {
			return invalid("line %d: only mappings can be merged", s.Line)
		}
		for i := 0; i+1 < len(s.Content); i += 2 {
			if key := s.Content[i]; !seen[key.Value] {
				seen[key.Value] = true
				into.Content = append(into.Content, key, s.Content[i+1])
			}
		}
	}
	return nil
}

// Values returns the values of the frontmatter in types like those of JSON: string,
// bool, int64, uint64, float64, map[string]any, []any, nil. Dates stay texts.
func (d *Document) Values() map[string]any {
	values, _ := value(d.root).(map[string]any)
	return values
}

// Text returns the text of a key's scalar value. It distinguishes 1.10 from 1.1, which
// are equal as numbers.
func (d *Document) Text(key string) (text string, ok bool) {
	if n := field(d.root, key); n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		return n.Value, true
	}
	return "", false
}

func value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = value(item)
		}
		return list
	}
	return scalar(n)
}

func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
		var u uint64
		if n.Decode(&u) == nil {
			return u
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
	return n.Value
}

// field returns the value of a key, nil if it is absent.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// setField sets the value of a key; a new key comes last.
func setField(mapping *yaml.Node, key string, v *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			old := mapping.Content[i+1]
			v.LineComment, v.FootComment = old.LineComment, old.FootComment
			mapping.Content[i+1] = v
			return
		}
	}
	name := &yaml.Node{}
	name.SetString(key)
	mapping.Content = append(mapping.Content, name, v)
}
