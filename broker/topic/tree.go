package topic

import "strings"

// Filters maps topic filters to values and finds those that cover a name. The
// zero value is empty. It is not safe for concurrent use.
type Filters[V any] struct{ root node[V] }

// Names maps topic names to values and finds those that a filter covers. The
// zero value is empty. It is not safe for concurrent use.
type Names[V any] struct{ root node[V] }

// A node is one level. Wildcards are kept like any other level: their spelling
// can't stand in a name.
type node[V any] struct {
	children map[string]*node[V]
	value    V
	here     bool // value is set
}

func (n *node[V]) find(path string) *node[V] {
	for n != nil {
		level, rest, more := strings.Cut(path, "/")
		n = n.children[level]
		if !more {
			return n
		}
		path = rest
	}
	return nil
}

func (n *node[V]) set(path string, v V) {
	path = strings.Clone(path) // levels share it, and the caller's may be part of something large
	for more := true; more; {
		var level string
		level, path, more = strings.Cut(path, "/")
		child := n.children[level]
		if child == nil {
			child = new(node[V])
			if n.children == nil {
				n.children = make(map[string]*node[V], 1)
			}
			n.children[level] = child
		}
		n = child
	}
	n.value, n.here = v, true
}

// remove takes the value away and every node left with nothing below it.
func (n *node[V]) remove(path string) {
	type step struct {
		parent *node[V]
		level  string
	}
	var steps []step
	for more := true; more; {
		var level string
		level, path, more = strings.Cut(path, "/")
		child := n.children[level]
		if child == nil {
			return
		}
		steps = append(steps, step{n, level})
		n = child
	}
	var zero V
	n.value, n.here = zero, false
	for i := len(steps) - 1; i >= 0 && !n.here && len(n.children) == 0; i-- {
		n = steps[i].parent
		delete(n.children, steps[i].level)
	}
}

// Get returns the value of a filter.
func (f *Filters[V]) Get(filter string) (v V, ok bool) { return get(f.root.find(filter)) }

// Get returns the value of a name.
func (f *Names[V]) Get(name string) (v V, ok bool) { return get(f.root.find(name)) }

func get[V any](n *node[V]) (v V, ok bool) {
	if n == nil {
		return v, false
	}
	return n.value, n.here
}

// Set gives a filter its value.
func (f *Filters[V]) Set(filter string, v V) { f.root.set(filter, v) }

// Set gives a name its value.
func (f *Names[V]) Set(name string, v V) { f.root.set(name, v) }

// Delete removes a filter.
func (f *Filters[V]) Delete(filter string) { f.root.remove(filter) }

// Delete removes a name.
func (f *Names[V]) Delete(name string) { f.root.remove(name) }

// Match calls yield with the value of every filter that covers the name.
func (f *Filters[V]) Match(name string, yield func(V)) {
	f.root.match(name, !hidden(name), yield)
}

// match looks below n for the rest of a name; wild says whether wildcards
// count in this level.
func (n *node[V]) match(name string, wild bool, yield func(V)) {
	level, rest, more := strings.Cut(name, "/")
	if wild {
		if all := n.children["#"]; all != nil && all.here {
			yield(all.value)
		}
		if any := n.children["+"]; any != nil {
			any.follow(rest, more, yield)
		}
	}
	if child := n.children[level]; child != nil {
		child.follow(rest, more, yield)
	}
}

// follow: n covers the last level looked at; more says whether a rest follows.
func (n *node[V]) follow(rest string, more bool, yield func(V)) {
	if more {
		n.match(rest, true, yield)
		return
	}
	if n.here {
		yield(n.value)
	}
	if all := n.children["#"]; all != nil && all.here { // a/# covers a
		yield(all.value)
	}
}

// Covered calls yield with the value of every name the filter covers, until
// it returns false.
func (f *Names[V]) Covered(filter string, yield func(V) bool) {
	f.root.covered(filter, true, yield)
}

func (n *node[V]) covered(filter string, first bool, yield func(V) bool) bool {
	level, rest, more := strings.Cut(filter, "/")
	switch level {
	case "#":
		return n.below(first, yield)
	case "+":
		for name, child := range n.children {
			if first && hidden(name) {
				continue
			}
			if !child.take(rest, more, yield) {
				return false
			}
		}
	default:
		if child := n.children[level]; child != nil {
			return child.take(rest, more, yield)
		}
	}
	return true
}

func (n *node[V]) take(rest string, more bool, yield func(V) bool) bool {
	if !more {
		return !n.here || yield(n.value)
	}
	if rest == "#" && n.here && !yield(n.value) { // a/# covers a
		return false
	}
	return n.covered(rest, false, yield)
}

func (n *node[V]) below(first bool, yield func(V) bool) bool {
	for name, child := range n.children {
		if first && hidden(name) {
			continue
		}
		if child.here && !yield(child.value) || !child.below(false, yield) {
			return false
		}
	}
	return true
}
