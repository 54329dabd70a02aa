package registry

import (
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// SpeaksFor reports whether a principal may speak for a skill: it described
// it, or it is or owns an agent that serves it. known is whether there is
// such a skill.
func (s *Service) SpeaksFor(who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) (yes, known bool) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return false, false
	}
	if r.Owner.Is(who) {
		return true, true
	}
	for _, p := range r.Providers {
		if a, _, ok := s.opts.Agents.Get(tableKey(space, p.AgentID)); ok && a.BelongsTo(who) {
			return true, true
		}
	}
	return false, true
}

// ServedBy lists the skills that an agent serves.
func (s *Service) ServedBy(space protocol.SpaceID, agent protocol.AgentID) []protocol.SkillID {
	records := s.index.skillsOf(ask.AgentKey{Space: space, ID: agent})
	skills := make([]protocol.SkillID, len(records))
	for i, r := range records {
		skills[i] = r.ID
	}
	return skills
}

// SkillOnline reports whether a skill can be expected to answer.
func (s *Service) SkillOnline(space protocol.SpaceID, skill protocol.SkillID) bool {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	return ok && s.isOnline(r)
}
