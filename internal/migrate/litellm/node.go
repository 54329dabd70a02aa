package litellm

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// A field is a key of a mapping with its value.
type field struct {
	name  string
	line  int
	value *yaml.Node
}

// fields are those of a mapping; of two with one name the last counts, as it
// does for LiteLLM. It reports a value that is not a mapping.
func (r *reader) fields(f field) (all []field) {
	node := f.value
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		r.note(f.line, "%s is not a mapping", f.name)
		return nil
	}
	if r.seen += len(node.Content) / 2; r.seen > maxFields {
		return nil
	}
	at := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		next := field{key.Value, key.Line, target(node.Content[i+1])}
		if earlier, ok := at[next.name]; ok {
			r.note(next.line, "%q stands twice: this one counts, not that in line %d", next.name, all[earlier].line)
			all[earlier] = next
			continue
		}
		at[next.name] = len(all)
		all = append(all, next)
	}
	return all
}

// items are those of a sequence. It reports a value that is none.
func (r *reader) items(f field) (all []field) {
	if f.value.Kind == yaml.ScalarNode && f.value.Tag == "!!null" {
		return nil
	}
	if f.value.Kind != yaml.SequenceNode {
		r.note(f.line, "%s is not a list", f.name)
		return nil
	}
	if r.seen += len(f.value.Content); r.seen > maxFields {
		return nil
	}
	for _, n := range f.value.Content {
		all = append(all, field{f.name, n.Line, target(n)})
	}
	return all
}

// target is the node that an alias means.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// scalar reports whether a field is absent, empty or one value.
func (f field) scalar() bool { return f.value == nil || f.value.Kind == yaml.ScalarNode }

// text is a scalar's text, "" for anything else.
func (f field) text() string {
	if f.value == nil || f.value.Kind != yaml.ScalarNode || f.value.Tag == "!!null" {
		return ""
	}
	return f.value.Value
}

// number is a positive number.
func (f field) number() (float64, bool) {
	n, err := strconv.ParseFloat(f.text(), 64)
	return n, err == nil && n > 0 && n <= 1e9
}

// true reports whether a switch is on.
func (f field) true() bool {
	var on bool
	return f.value.Kind == yaml.ScalarNode && f.value.Decode(&on) == nil && on
}
