package topic

import (
	"iter"
	"strings"
)

// A node stands for some levels that nothing branches off, so that a tree has
// at most two nodes for a value, however many levels lead to it. Wildcards are
// kept like any other level: their spelling can't stand in a name.
type node[V any] struct {
	path  string       // its levels, separated by slashes; means nothing in a root
	only  *node[V]     // the one child
	many  *branches[V] // or the children, of which there are several
	value V
	here  bool   // value is set
	hash  uint32 // of its first level, among branches
}

// child returns the child whose first level this is, or nil.
func (n *node[V]) child(level string) *node[V] {
	if n.many != nil {
		return n.many.get(level)
	}
	if n.only != nil && n.only.begins(level) {
		return n.only
	}
	return nil
}

func (n *node[V]) first() string {
	level, _, _ := strings.Cut(n.path, "/")
	return level
}

// begins reports whether this is its first level.
func (n *node[V]) begins(level string) bool {
	rest, ok := strings.CutPrefix(n.path, level)
	return ok && (rest == "" || rest[0] == '/')
}

// children yields all children, in any order.
func (n *node[V]) children() iter.Seq[*node[V]] {
	if n.many != nil {
		return n.many.all()
	}
	return func(yield func(*node[V]) bool) {
		if n.only != nil {
			yield(n.only)
		}
	}
}

// adopt makes c a child of n, in place of the one with the same first level.
func (n *node[V]) adopt(c *node[V]) {
	switch {
	case n.many != nil:
		n.many.put(c)
	case n.only == nil || n.only.begins(c.first()):
		n.only = c
	default:
		n.many = new(branches[V])
		n.many.put(n.only)
		n.many.put(c)
		n.only = nil
	}
}

// disown removes a child.
func (n *node[V]) disown(c *node[V]) {
	if n.many == nil {
		n.only = nil
		return
	}
	n.many.remove(c.first())
	if n.many.count == 1 {
		for left := range n.many.all() {
			n.only = left
		}
		n.many = nil
	}
}

// get returns the value at a path.
func (n *node[V]) get(path string) (v V, ok bool) {
	for {
		level, _, _ := strings.Cut(path, "/")
		child := n.child(level)
		if child == nil {
			return v, false
		}
		rest, found := strings.CutPrefix(path, child.path)
		switch {
		case !found:
			return v, false
		case rest == "":
			return child.value, child.here
		case rest[0] != '/':
			return v, false
		}
		n, path = child, rest[1:]
	}
}

// set gives a path its value. What it keeps of the path goes through keep: the caller's may
// be a part of something large.
func (n *node[V]) set(path string, v V, keep func(string) string) {
	for {
		level, _, _ := strings.Cut(path, "/")
		child := n.child(level)
		if child == nil {
			n.adopt(&node[V]{path: keep(path), value: v, here: true})
			return
		}
		common := commonLevels(child.path, path)
		if common < len(child.path) {
			child = n.split(child, common)
		}
		if common == len(path) {
			child.value, child.here = v, true
			return
		}
		n, path = child, path[common+1:]
	}
}

// split puts the first levels of a child, so many bytes, into a node between.
func (n *node[V]) split(child *node[V], at int) (between *node[V]) {
	between = &node[V]{path: strings.Clone(child.path[:at])}
	n.adopt(between)
	child.path = strings.Clone(child.path[at+1:])
	between.adopt(child)
	return between
}

// commonLevels is the length in bytes of the levels that two paths begin with
// alike. The first level of both is the same.
func commonLevels(a, b string) int {
	end := 0
	for i := 0; ; i++ {
		aEnds, bEnds := i == len(a) || a[i] == '/', i == len(b) || b[i] == '/'
		switch {
		case aEnds && bEnds:
			end = i
			if i == len(a) || i == len(b) {
				return end
			}
		case aEnds || bEnds || a[i] != b[i]:
			return end
		}
	}
}

// remove takes the value at a path away, and the nodes that are of no use then.
func (n *node[V]) remove(path string) {
	var above *node[V]
	for {
		level, _, _ := strings.Cut(path, "/")
		child := n.child(level)
		if child == nil {
			return
		}
		rest, found := strings.CutPrefix(path, child.path)
		if !found || rest != "" && rest[0] != '/' {
			return
		}
		if rest == "" {
			n.removeChild(child)
			if above != nil {
				above.join(n)
			}
			return
		}
		above, n, path = n, child, rest[1:]
	}
}

func (n *node[V]) removeChild(child *node[V]) {
	var none V
	child.value, child.here = none, false
	if child.only == nil && child.many == nil {
		n.disown(child)
		return
	}
	n.join(child)
}

// join puts a child of n that nothing branches off any more together with the
// one below it.
func (n *node[V]) join(child *node[V]) {
	below := child.only
	if child.here || below == nil {
		return
	}
	below.path = child.path + "/" + below.path
	n.adopt(below)
}
