package registry

import (
	"iter"
	"sync"

	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// An index finds records by the filters of callers. It follows the tables.
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
	byTag        tagIndex
}

func newIndex() *index {
	return &index{spaces: make(map[protocol.SpaceID]*space)}
}

func (x *index) space(id protocol.SpaceID) *space {
	s := x.spaces[id]
	if s == nil {
		s = &space{
			agents:       newOrdered(agentID),
			skills:       newOrdered(skillID),
			resources:    newOrdered(func(r *ResourceRecord) string { return string(r.ID) }),
			byCapability: make(map[protocol.CapabilityID]*ordered[*SkillRecord]),
			byProvider:   make(map[protocol.AgentID]*ordered[*SkillRecord]),
			byTag:        make(tagIndex),
		}
		x.spaces[id] = s
	}
	return s
}

func agentID(a *Agent) string { return string(a.ID) }

func skillID(r *SkillRecord) string { return string(r.ID) }

func (x *index) agentChanged(_ string, old, new *Agent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		x.space(old.Space).byTag.remove(old)
	}
	if new != nil {
		x.space(new.Space).agents.put(new)
		x.space(new.Space).byTag.put(new)
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
func (x *index) skillsOf(a ask.AgentKey) []*SkillRecord {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.spaces[a.Space]
	if s == nil || s.byProvider[a.ID] == nil {
		return nil
	}
	set := s.byProvider[a.ID]
	list := make([]*SkillRecord, 0, set.len())
	for r := range set.after("") {
		list = append(list, r)
	}
	return list
}

// skills finds skills of a space: all, or those with a capability.
func (x *index) skills(id protocol.SpaceID, capability protocol.CapabilityID, q query[*SkillRecord]) (listing.Selection[*SkillRecord], error) {
	return search(x, id, q, func(s *space) *ordered[*SkillRecord] {
		if capability == "" {
			return s.skills
		}
		return s.byCapability[capability]
	})
}

func (x *index) agents(id protocol.SpaceID, q query[*Agent]) (listing.Selection[*Agent], error) {
	return search(x, id, q, func(s *space) *ordered[*Agent] { return s.agents })
}

func (x *index) resources(id protocol.SpaceID, q query[*ResourceRecord]) (listing.Selection[*ResourceRecord], error) {
	return search(x, id, q, func(s *space) *ordered[*ResourceRecord] { return s.resources })
}

// search runs a query on one of the sets of a space. A query that must look at every
// value does so on a copy of the set, without holding up others.
func search[T any](x *index, id protocol.SpaceID, q query[T], choose func(*space) *ordered[T]) (listing.Selection[T], error) {
	x.mu.RLock()
	s := x.spaces[id]
	if s == nil || choose(s) == nil {
		x.mu.RUnlock()
		return listing.Selection[T]{}, nil
	}
	set := choose(s)
	if q.match == nil && q.byID() {
		defer x.mu.RUnlock()
		return q.page(set), nil
	}
	all := make([]T, 0, set.len())
	for v := range set.after("") {
		all = append(all, v)
	}
	x.mu.RUnlock()
	if q.byID() {
		q.order = listing.Order[T]{ID: set.key}
	}
	return q.order.Select(q.matching(all), q.sort, q.Page)
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
	listing.Page
	sort  string           // "" for by id
	order listing.Order[T] // needed unless it is by id
	match func(T) bool     // nil: everything
}

// byID reports whether the list is wanted in the order that the sets have.
func (q query[T]) byID() bool { return q.sort == "" || q.sort == "id" }

// page takes the page out of a whole set in its order, without looking at more
// than the page.
func (q query[T]) page(set *ordered[T]) listing.Selection[T] {
	f := listing.Selection[T]{Total: set.len()}
	for v := range set.after(q.Cursor) {
		if len(f.Items) == q.Size() {
			f.Next = set.key(f.Items[len(f.Items)-1])
			break
		}
		f.Items = append(f.Items, v)
	}
	return f
}

// matching yields what matches.
func (q query[T]) matching(all []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range all {
			if (q.match == nil || q.match(v)) && !yield(v) {
				return
			}
		}
	}
}
