package cap

import "github.com/aibridge/aibridge/protocol"

// MayUseChannel decides about the topics of a Cap. The owner may use them, and
// every member of one of its groups, by the identity of its connection: a
// skill, or an agent that serves one. The channel of an inactive Cap takes no
// messages. The broker calls it for every message.
func (s *Service) MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool {
	space := who.Home()
	var skills []protocol.SkillID
	switch who.Kind {
	case protocol.KindSkill:
		skills = []protocol.SkillID{protocol.SkillID(who.ID)}
	case protocol.KindAgent:
		skills = s.opts.Skills.ServedBy(space, protocol.AgentID(who.ID))
	}
	st := s.index.stands(space, id, who.Party(), skills)
	return st.member && (st.active || !send)
}

// SkillChanged must be called when the agents of a skill change: former agents
// may have lost their membership. It does not block.
func (s *Service) SkillChanged(space protocol.SpaceID, skill protocol.SkillID) {
	for _, id := range s.index.capsOf(space, skill) {
		s.opts.MembershipLost(space, id)
	}
}

// OwnersKnowing are the owners of the Caps that a skill owns or has joined,
// registered or not.
func (s *Service) OwnersKnowing(space protocol.SpaceID, skill protocol.SkillID) (owners []protocol.Party) {
	for _, id := range s.index.capsOf(space, skill) {
		if c, ok := s.Lookup(space, id); ok {
			owners = append(owners, c.Owner)
		}
	}
	return owners
}

// Knowing lists the Caps that know a skill, as OwnersKnowing has it, by id.
func (s *Service) Knowing(space protocol.SpaceID, skill protocol.SkillID) []protocol.CapID {
	return s.index.capsOf(space, skill)
}

// Lookup finds a Cap. It must not be changed.
func (s *Service) Lookup(space protocol.SpaceID, id protocol.CapID) (*Cap, bool) {
	c, _, ok := s.opts.Caps.Get(capKey(space, id))
	return c, ok
}

// Belongs reports whether a skill is a Cap's own or a member of one of its
// groups.
func (s *Service) Belongs(space protocol.SpaceID, id protocol.CapID, skill protocol.SkillID) bool {
	return s.index.stands(space, id, protocol.Party{}, []protocol.SkillID{skill}).member
}
