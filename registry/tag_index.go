package registry

import (
	"iter"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// A tagIndex has the agents of a space by the name and the value of their tags.
type tagIndex map[string]map[string]*ordered[*Agent]

func (x tagIndex) put(a *Agent) {
	for name, value := range a.Tags {
		values := x[name]
		if values == nil {
			values = make(map[string]*ordered[*Agent])
			x[name] = values
		}
		if values[value] == nil {
			values[value] = newOrdered(agentID)
		}
		values[value].put(a)
	}
}

func (x tagIndex) remove(a *Agent) {
	for name, value := range a.Tags {
		set := x[name][value]
		if set == nil {
			continue
		}
		if set.remove(string(a.ID)); set.len() > 0 {
			continue
		}
		if delete(x[name], value); len(x[name]) == 0 {
			delete(x, name)
		}
	}
}

// candidates are the agents that can fulfil a selector: those that fulfil its
// rarest indexed requirement.
func (x *index) candidates(id protocol.SpaceID, chosen *selector.Selector) []*Agent {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.spaces[id]
	if s == nil {
		return nil
	}
	best, fewest := s.agents.after(""), s.agents.len()
	for i := range chosen.Requirements() {
		if found, n, ok := s.fulfil(&chosen.Requirements()[i]); ok && n < fewest {
			best, fewest = found, n
		}
	}
	list := make([]*Agent, 0, fewest)
	for a := range best {
		list = append(list, a)
	}
	return list
}

// fulfil finds the agents that fulfil a requirement, and how many they are. ok is
// whether an index knows.
func (s *space) fulfil(r *selector.Requirement) (found iter.Seq[*Agent], n int, ok bool) {
	switch {
	case r.Key.Kind == selector.Tag:
		return s.tagged(r)
	case r.Op != selector.Equal:
		return nil, 0, false
	case r.Key.Kind == selector.Agent && r.Key.Name == "id":
		return s.named(r.Values)
	case r.Key.Kind == selector.Skill && r.Key.Name == "id":
		return s.serving(r.Values[0])
	}
	return nil, 0, false
}

// tagged finds agents by a tag.
func (s *space) tagged(r *selector.Requirement) (found iter.Seq[*Agent], n int, ok bool) {
	var sets []*ordered[*Agent]
	switch values := s.byTag[r.Key.Name]; r.Op {
	case selector.Equal, selector.In:
		seen := make(map[string]bool, len(r.Values))
		for _, v := range r.Values {
			if set := values[v]; set != nil && !seen[v] {
				sets, seen[v] = append(sets, set), true
			}
		}
	case selector.Exists, selector.Less, selector.AtMost, selector.More, selector.AtLeast:
		for _, set := range values {
			sets = append(sets, set)
		}
	default:
		return nil, 0, false
	}
	for _, set := range sets {
		n += set.len()
	}
	return func(yield func(*Agent) bool) {
		for _, set := range sets {
			for a := range set.after("") {
				if !yield(a) {
					return
				}
			}
		}
	}, n, true
}

// named finds agents by their ids.
func (s *space) named(ids []string) (found iter.Seq[*Agent], n int, ok bool) {
	return func(yield func(*Agent) bool) {
		for _, id := range ids {
			if a, there := s.agents.get(id); there && !yield(a) {
				return
			}
		}
	}, len(ids), true
}

// serving finds the agents of a skill.
func (s *space) serving(skill string) (found iter.Seq[*Agent], n int, ok bool) {
	r, there := s.skills.get(skill)
	if !there {
		return func(func(*Agent) bool) {}, 0, true
	}
	ids := make([]string, len(r.Providers))
	for i, p := range r.Providers {
		ids[i] = string(p.AgentID)
	}
	return s.named(ids)
}
