package registry

import "github.com/aibridge/aibridge/protocol"

// Facts are the owner and the agents of a registered thing, for authorization in
// other packages.
type Facts struct {
	Owner     protocol.Party     // the party that registered it
	Agents    []protocol.AgentID // that provide a skill
	Endpoints []string           // of an agent
}

// AgentFacts are the facts about an agent.
func (s *Service) AgentFacts(space protocol.SpaceID, id protocol.AgentID) (Facts, bool) {
	a, _, ok := s.opts.Agents.Get(tableKey(space, id))
	if !ok {
		return Facts{}, false
	}
	return Facts{Owner: a.Owner, Endpoints: a.Endpoints}, true
}

// OwnedBy lists the agents that a party registered, in no order.
func (s *Service) OwnedBy(owner protocol.Party) []protocol.AgentID {
	var ids []protocol.AgentID
	for _, a := range s.opts.Agents.All() {
		if a.Owner == owner {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// SkillFacts are the facts about a skill.
func (s *Service) SkillFacts(space protocol.SpaceID, id protocol.SkillID) (Facts, bool) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, id))
	if !ok {
		return Facts{}, false
	}
	f := Facts{Owner: r.Owner, Agents: make([]protocol.AgentID, len(r.Providers))}
	for i, p := range r.Providers {
		f.Agents[i] = p.AgentID
	}
	return f, true
}

// ResourceFacts are the facts about a resource.
func (s *Service) ResourceFacts(space protocol.SpaceID, id protocol.ResourceID) (Facts, bool) {
	r, _, ok := s.opts.Resources.Get(tableKey(space, id))
	if !ok {
		return Facts{}, false
	}
	return Facts{Owner: r.Owner}, true
}

// OnFactsChange calls f whenever facts may have changed. It must not block.
func (s *Service) OnFactsChange(f func()) {
	s.opts.Agents.OnChange(func(string, *Agent, *Agent) { f() })
	s.opts.Skills.OnChange(func(string, *SkillRecord, *SkillRecord) { f() })
	s.opts.Resources.OnChange(func(string, *ResourceRecord, *ResourceRecord) { f() })
}
