package topic

import "strings"

// Filters maps topic filters to values and finds those that cover a name. The
// zero value is empty. It is not safe for concurrent use.
type Filters[V any] struct{ root node[V] }

// Names maps topic names to values and finds those that a filter covers. The
// zero value is empty. It is not safe for concurrent use.
type Names[V any] struct{ root node[V] }

// Get returns the value of a filter.
func (f *Filters[V]) Get(filter string) (v V, ok bool) { return f.root.get(filter) }

// Get returns the value of a name.
func (f *Names[V]) Get(name string) (v V, ok bool) { return f.root.get(name) }

// Set gives a filter its value.
func (f *Filters[V]) Set(filter string, v V) { f.root.set(filter, v, strings.Clone) }

// Set gives a name its value. It refers to the name from then on, so that who keeps it
// anyway, in the value, has it in memory once.
func (f *Names[V]) Set(name string, v V) {
	f.root.set(name, v, func(part string) string { return part })
}

// Delete removes a filter.
func (f *Filters[V]) Delete(filter string) { f.root.remove(filter) }

// Delete removes a name.
func (f *Names[V]) Delete(name string) { f.root.remove(name) }

// Match calls yield with the value of every filter that covers the name.
func (f *Filters[V]) Match(name string, yield func(V)) {
	f.root.match(name, !hidden(name), yield)
}

// match looks below n for what covers a name, or what is left of it; wild says
// whether wildcards count in its first level.
func (n *node[V]) match(name string, wild bool, yield func(V)) {
	if wild {
		n.matchAll(yield)
		if any := n.child("+"); any != nil {
			any.along(name, yield)
		}
	}
	level, _, _ := strings.Cut(name, "/")
	if child := n.child(level); child != nil {
		child.along(name, yield)
	}
}

// matchAll yields the filter that ends below n with #.
func (n *node[V]) matchAll(yield func(V)) {
	if all := n.child("#"); all != nil {
		yield(all.value)
	}
}

// along goes with a name along the levels of n, of which the first covers the
// name's first.
func (n *node[V]) along(name string, yield func(V)) {
	for path := n.path; ; {
		level, path2, morePath := strings.Cut(path, "/")
		part, name2, moreName := strings.Cut(name, "/")
		switch {
		case level == "#": // the last one
			yield(n.value)
			return
		case level != "+" && level != part:
			return
		case !morePath && moreName:
			n.match(name2, true, yield)
			return
		case !morePath:
			if n.here {
				yield(n.value)
			}
			n.matchAll(yield) // a/# covers a
			return
		case !moreName:
			if path2 == "#" { // a/# covers a
				yield(n.value)
			}
			return
		}
		path, name = path2, name2
	}
}

// All calls yield with the value of every name, until it returns false.
func (f *Names[V]) All(yield func(V) bool) { f.root.below(false, yield) }

// Covered calls yield with the value of every name the filter covers, until
// it returns false.
func (f *Names[V]) Covered(filter string, yield func(V) bool) {
	f.root.covered(filter, true, yield)
}

// covered looks below n for names that a filter, or what is left of it, covers;
// first says that this is its first level.
func (n *node[V]) covered(filter string, first bool, yield func(V) bool) bool {
	level, _, _ := strings.Cut(filter, "/")
	switch level {
	case "#":
		return n.below(first, yield)
	case "+":
		for child := range n.children() {
			if first && hidden(child.path) {
				continue
			}
			if !child.coveredAlong(filter, yield) {
				return false
			}
		}
	default:
		if child := n.child(level); child != nil {
			return child.coveredAlong(filter, yield)
		}
	}
	return true
}

// coveredAlong goes with a filter along the levels of n.
func (n *node[V]) coveredAlong(filter string, yield func(V) bool) bool {
	for path := n.path; ; {
		level, filter2, moreFilter := strings.Cut(filter, "/")
		part, path2, morePath := strings.Cut(path, "/")
		switch {
		case level == "#":
			return n.under(yield)
		case level != "+" && level != part:
			return true
		case !morePath && !moreFilter:
			return !n.here || yield(n.value)
		case !morePath && filter2 == "#": // a/# covers a
			return n.under(yield)
		case !morePath:
			return n.covered(filter2, false, yield)
		case !moreFilter:
			return true
		}
		filter, path = filter2, path2
	}
}

// below yields everything below n.
func (n *node[V]) below(first bool, yield func(V) bool) bool {
	for child := range n.children() {
		if first && hidden(child.path) {
			continue
		}
		if !child.under(yield) {
			return false
		}
	}
	return true
}

// under yields n and everything below it.
func (n *node[V]) under(yield func(V) bool) bool {
	return (!n.here || yield(n.value)) && n.below(false, yield)
}
