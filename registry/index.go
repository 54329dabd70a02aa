package registry

import (
	"iter"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// An index finds records by what callers ask for. It follows the tables.
type index struct {
	mu     sync.RWMutex
	spaces map[protocol.SpaceID]*space
}

// A space is everything in one space, in the order of ids.
type space struct {
	agents    *ordered[*Agent]
	skills    *ordered[*SkillRecord]
	resources *ordered[*ResourceRecord]

	byCapability map[protocol.CapabilityID]*ordered[*SkillRecord]
	byProvider   map[protocol.AgentID]*ordered[*SkillRecord]
}

func newIndex() *index {
	return &index{spaces: make(map[protocol.SpaceID]*space)}
}

func (x *index) space(id protocol.SpaceID) *space {
	s := x.spaces[id]
	if s == nil {
		s = &space{
			agents:       newOrdered(func(a *Agent) string { return string(a.ID) }),
			skills:       newOrdered(skillID),
			resources:    newOrdered(func(r *ResourceRecord) string { return string(r.ID) }),
			byCapability: make(map[protocol.CapabilityID]*ordered[*SkillRecord]),
			byProvider:   make(map[protocol.AgentID]*ordered[*SkillRecord]),
		}
		x.spaces[id] = s
	}
	return s
}

func skillID(r *SkillRecord) string { return string(r.ID) }

func (x *index) agentChanged(_ string, old, new *Agent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if new != nil {
		x.space(new.Space).agents.put(new)
	} else if old != nil {
		x.space(old.Space).agents.remove(string(old.ID))
	}
}

func (x *index) resourceChanged(_ string, old, new *ResourceRecord) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if new != nil {
		x.space(new.Space).resources.put(new)
	} else if old != nil {
		x.space(old.Space).resources.remove(string(old.ID))
	}
}

func (x *index) skillChanged(_ string, old, new *SkillRecord) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		s := x.space(old.Space)
		if new == nil {
			s.skills.remove(string(old.ID))
		}
		for _, c := range old.Capabilities {
			drop(s.byCapability, c.ID, old)
		}
		for _, p := range old.Providers {
			drop(s.byProvider, p.AgentID, old)
		}
	}
	if new != nil {
		s := x.space(new.Space)
		s.skills.put(new)
		for _, c := range new.Capabilities {
			add(s.byCapability, c.ID, new)
		}
		for _, p := range new.Providers {
			add(s.byProvider, p.AgentID, new)
		}
	}
}

func add[K comparable](m map[K]*ordered[*SkillRecord], key K, r *SkillRecord) {
	set := m[key]
	if set == nil {
		set = newOrdered(skillID)
		m[key] = set
	}
	set.put(r)
}

func drop[K comparable](m map[K]*ordered[*SkillRecord], key K, r *SkillRecord) {
	if set := m[key]; set != nil {
		if set.remove(string(r.ID)); set.len() == 0 {
			delete(m, key)
		}
	}
}

// skillsOf lists the skills an agent provides.
func (x *index) skillsOf(a agentKey) []*SkillRecord {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.spaces[a.space]
	if s == nil || s.byProvider[a.id] == nil {
		return nil
	}
	set := s.byProvider[a.id]
	list := make([]*SkillRecord, 0, set.len())
	for r := range set.after("") {
		list = append(list, r)
	}
	return list
}

// skills finds skills of a space: all, or those with a capability.
func (x *index) skills(id protocol.SpaceID, capability protocol.CapabilityID, q query[*SkillRecord]) found[*SkillRecord] {
	return search(x, id, q, func(s *space) *ordered[*SkillRecord] {
		if capability == "" {
			return s.skills
		}
		return s.byCapability[capability]
	})
}

func (x *index) agents(id protocol.SpaceID, q query[*Agent]) found[*Agent] {
	return search(x, id, q, func(s *space) *ordered[*Agent] { return s.agents })
}

func (x *index) resources(id protocol.SpaceID, q query[*ResourceRecord]) found[*ResourceRecord] {
	return search(x, id, q, func(s *space) *ordered[*ResourceRecord] { return s.resources })
}

// search runs a query on one of the sets of a space. What has to look at every
// value does so on a copy of the set, without holding up anybody.
func search[T any](x *index, id protocol.SpaceID, q query[T], choose func(*space) *ordered[T]) (f found[T]) {
	x.mu.RLock()
	s := x.spaces[id]
	if s == nil || choose(s) == nil {
		x.mu.RUnlock()
		return f
	}
	set := choose(s)
	if q.match == nil {
		defer x.mu.RUnlock()
		return q.page(set)
	}
	all := make([]T, 0, set.len())
	for v := range set.after("") {
		all = append(all, v)
	}
	x.mu.RUnlock()
	return q.filter(all, set.key)
}

// allAgents yields every agent of every space. It holds no lock while
// yielding.
func (x *index) allAgents() iter.Seq[*Agent] {
	x.mu.RLock()
	var list []*Agent
	for _, s := range x.spaces {
		for a := range s.agents.after("") {
			list = append(list, a)
		}
	}
	x.mu.RUnlock()
	return func(yield func(*Agent) bool) {
		for _, a := range list {
			if !yield(a) {
				return
			}
		}
	}
}

// A query is one page of a list.
type query[T any] struct {
	limit int
	after string       // the last key of the page before
	match func(T) bool // nil: everything
}

// What a query found.
type found[T any] struct {
	items []T
	total int    // on all pages together
	next  string // cursor of the next page, "" on the last
}

// page takes the page out of a whole set.
func (q query[T]) page(set *ordered[T]) (f found[T]) {
	f.total = set.len()
	for v := range set.after(q.after) {
		if !q.take(&f, set.key, v) {
			break
		}
	}
	return f
}

// filter takes the page out of what matches.
func (q query[T]) filter(all []T, key func(T) string) (f found[T]) {
	for _, v := range all {
		if q.match(v) {
			f.total++
			if key(v) > q.after {
				q.take(&f, key, v)
			}
		}
	}
	return f
}

// take adds a value to the page. It reports whether there was room.
func (q query[T]) take(f *found[T], key func(T) string, v T) bool {
	if len(f.items) < q.limit {
		f.items = append(f.items, v)
		return true
	}
	f.next = key(f.items[q.limit-1])
	return false
}

// containsFold reports whether text contains word, which is in lower case,
// whatever the case of text.
func containsFold(text, word string) bool {
	if word == "" || len(word) > len(text) {
		return word == ""
	}
	for i := range len(word) {
		if word[i] >= 0x80 {
			return strings.Contains(strings.ToLower(text), word)
		}
	}
	for i := 0; i+len(word) <= len(text); i++ {
		if lower(text[i]) == word[0] && hasPrefixFold(text[i:], word) {
			return true
		}
	}
	return false
}

func hasPrefixFold(text, word string) bool {
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
