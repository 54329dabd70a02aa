package routes

import (
	"slices"
	"sync"

	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A leaf is the set of subscribers of a filter with wildcards.
type leaf struct {
	own    slots
	groups []member
}

// A member is the number of a bridge's clients in a group.
type member struct {
	group   uint64
	in      slot
	members uint32
}

// A wild has the filters with wildcards, space by space, and the groups of all
// filters.
type wild struct {
	mu       sync.RWMutex
	spaces   map[protocol.SpaceID]*topic.Filters[*leaf]
	literals map[uint64][]member // groups of filters without wildcards, by hash
	filters  map[wildFilter]*leaf
}

type wildFilter struct {
	space  protocol.SpaceID
	filter string
}

func (w *wild) clear() {
	w.spaces = make(map[protocol.SpaceID]*topic.Filters[*leaf])
	w.literals = make(map[uint64][]member)
	w.filters = make(map[wildFilter]*leaf)
}

func (w *wild) find(space protocol.SpaceID, hash uint64, name string, found *slots, groups []member) []member {
	w.mu.RLock()
	defer w.mu.RUnlock()
	groups = append(groups, w.literals[hash]...)
	if tree := w.spaces[space]; tree != nil {
		tree.Match(name, func(l *leaf) {
			found.addAll(l.own)
			groups = append(groups, l.groups...)
		})
	}
	return groups
}

// leaf returns that of a filter, which is made if it is missing and make is set.
// mu is held.
func (w *wild) leaf(f wildFilter, make bool) *leaf {
	l := w.filters[f]
	if l == nil && make {
		l = new(leaf)
		w.filters[f] = l
		tree := w.spaces[f.space]
		if tree == nil {
			tree = new(topic.Filters[*leaf])
			w.spaces[f.space] = tree
		}
		tree.Set(f.filter, l)
	}
	return l
}

// tidy removes a leaf without subscribers. The caller holds mu.
func (w *wild) tidy(f wildFilter, l *leaf) {
	if l.own.empty() && len(l.groups) == 0 {
		delete(w.filters, f)
		w.spaces[f.space].Delete(f.filter)
	}
}

// change applies a change to a slot, and reports whether it was one.
func (w *wild) change(c *WildChange, in slot) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := wildFilter{c.Space, c.Filter}
	l := w.leaf(f, !c.Drop)
	if l == nil || l.own.has(in) != c.Drop {
		return false
	}
	if c.Drop {
		l.own.remove(in)
		w.tidy(f, l)
	} else {
		l.own.add(in)
	}
	return true
}

// changeGroup applies a change to a slot, and returns the previous number of members.
func (w *wild) changeGroup(c *GroupChange, in slot) (before uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := member{c.Group, in, c.Members}
	if c.Filter == "" {
		list, before := replaced(w.literals[c.Literal], m)
		if w.literals[c.Literal] = list; len(list) == 0 {
			delete(w.literals, c.Literal)
		}
		return before
	}
	f := wildFilter{c.Space, c.Filter}
	l := w.leaf(f, c.Members > 0)
	if l == nil {
		return 0
	}
	l.groups, before = replaced(l.groups, m)
	w.tidy(f, l)
	return before
}

// replaced is the list with a member in place of that of its group and slot.
func replaced(list []member, m member) (_ []member, before uint32) {
	at := slices.IndexFunc(list, func(old member) bool { return old.group == m.group && old.in == m.in })
	switch {
	case at < 0 && m.members == 0:
	case at < 0:
		list = append(list, m)
	case m.members == 0:
		before = list[at].members
		list = slices.Delete(list, at, at+1)
	default:
		before = list[at].members
		list[at] = m
	}
	return list, before
}

// sweep drops everything of a slot.
func (w *wild) sweep(from slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := func(m member) bool { return m.in == from }
	for hash, list := range w.literals {
		if list = slices.DeleteFunc(list, of); len(list) == 0 {
			delete(w.literals, hash)
		} else {
			w.literals[hash] = list
		}
	}
	for f, l := range w.filters {
		l.own.remove(from)
		l.groups = slices.DeleteFunc(l.groups, of)
		w.tidy(f, l)
	}
}
