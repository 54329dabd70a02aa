package registry

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// Select yields the agents of a space, each with those of its skills that have a
// capability, that a selector chooses, in no order. "" means every capability.
// Nothing is locked while it yields.
func (s *Service) Select(space protocol.SpaceID, chosen *selector.Selector, capability protocol.CapabilityID) iter.Seq2[protocol.AgentID, protocol.SkillID] {
	return func(yield func(protocol.AgentID, protocol.SkillID) bool) {
		for c := range s.selected(space, chosen, capability) {
			if !yield(c.agent.ID, c.skill.ID) {
				return
			}
		}
	}
}

// selectAgents yields every agent that a selector chooses, once.
func (s *Service) selectAgents(space protocol.SpaceID, chosen *selector.Selector) iter.Seq[*Agent] {
	return func(yield func(*Agent) bool) {
		for _, a := range s.index.candidates(space, chosen) {
			if s.selects(a, chosen) && !yield(a) {
				return
			}
		}
	}
}

// selects reports whether a selector chooses an agent, with one of its skills if
// it asks for skills.
func (s *Service) selects(a *Agent, chosen *selector.Selector) bool {
	if !s.fits(a, chosen) {
		return false
	}
	ofSkills := false
	for i := range chosen.Requirements() {
		ofSkills = ofSkills || !chosen.Requirements()[i].OfAgent()
	}
	if !ofSkills {
		return true
	}
	for _, r := range s.index.skillsOf(a.Key()) {
		if chosen.Matches(candidate{s, a, r}) {
			return true
		}
	}
	return false
}

// fits reports whether an agent fulfils a selector's requirements of agents.
func (s *Service) fits(a *Agent, chosen *selector.Selector) bool {
	for i := range chosen.Requirements() {
		r := &chosen.Requirements()[i]
		if r.OfAgent() && !r.Holds(candidate{s, a, nil}) {
			return false
		}
	}
	return true
}

func (s *Service) selected(space protocol.SpaceID, chosen *selector.Selector, capability protocol.CapabilityID) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		for _, a := range s.index.candidates(space, chosen) {
			if !s.fits(a, chosen) {
				continue
			}
			for _, r := range s.index.skillsOf(a.Key()) {
				if _, able := r.capability(capability); !able && capability != "" {
					continue
				}
				if c := (candidate{s, a, r}); chosen.Matches(c) && !yield(c) {
					return
				}
			}
		}
	}
}

// A candidate is an agent with one of its skills, as selectors see it.
type candidate struct {
	service *Service
	agent   *Agent
	skill   *SkillRecord // nil where only the agent is looked at
}

var _ selector.Subject = candidate{}

// Has implements [selector.Subject].
func (c candidate) Has(k selector.Key) bool {
	switch k.Kind {
	case selector.Tag:
		_, ok := c.agent.Tags[k.Name]
		return ok
	case selector.State:
		_, ok := c.reported(k.Name)
		return ok
	}
	return len(c.Values(k)) > 0
}

// Values implements [selector.Subject].
func (c candidate) Values(k selector.Key) []string {
	switch k.Kind {
	case selector.Tag:
		if v, ok := c.agent.Tags[k.Name]; ok {
			return []string{v}
		}
	case selector.Agent:
		return c.ofAgent(k.Name)
	case selector.Skill:
		return c.ofSkill(k.Name)
	case selector.State:
		if raw, ok := c.reported(k.Name); ok {
			return scalar(raw)
		}
	}
	return nil
}

func (c candidate) ofAgent(field string) []string {
	switch field {
	case "id":
		return []string{string(c.agent.ID)}
	case "type":
		return []string{string(c.agent.Type)}
	case "status":
		return []string{string(statusOf(c.service.board.isOnline(c.agent.Key())))}
	case "name":
		if c.agent.Name != "" {
			return []string{c.agent.Name}
		}
	}
	return nil
}

func (c candidate) ofSkill(field string) []string {
	if c.skill == nil {
		return nil
	}
	switch field {
	case "id":
		return []string{string(c.skill.ID)}
	case "type":
		return []string{string(c.skill.Type)}
	case "version":
		return []string{c.skill.Version}
	case "capability":
		ids := make([]string, len(c.skill.Capabilities))
		for i := range c.skill.Capabilities {
			ids[i] = string(c.skill.Capabilities[i].ID)
		}
		return ids
	case "cap":
		if c.service.opts.CapsKnowing == nil {
			return nil
		}
		return texts(c.service.opts.CapsKnowing(c.skill.Space, c.skill.ID))
	}
	return nil
}

func texts[T ~string](list []T) []string {
	all := make([]string, len(list))
	for i, v := range list {
		all[i] = string(v)
	}
	return all
}

// reported is the report of an agent at a path of the state of the skill.
func (c candidate) reported(path string) (json.RawMessage, bool) {
	if c.skill == nil || c.service.opts.Reported == nil {
		return nil, false
	}
	at, ok := c.service.opts.Reported(c.agent.Space, c.agent.ID, c.skill.ID)
	for ok && path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil {
			return nil, false
		}
		at, ok = object[name]
	}
	return at, ok
}

// scalar is a JSON value as selectors compare it: a text without its quotes, a
// number, true, false and null as they are written; nothing else can be compared.
func scalar(raw json.RawMessage) []string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	switch v := v.(type) {
	case string:
		return []string{v}
	case map[string]any, []any:
		return nil
	}
	return []string{strings.TrimSpace(string(raw))}
}
