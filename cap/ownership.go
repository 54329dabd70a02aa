package cap

import "github.com/aibridge/aibridge/protocol"

// Facts returns the owner and the skill of a Cap, for decisions about its use.
func (s *Service) Facts(space protocol.SpaceID, id protocol.CapID) (owner protocol.Party, skill protocol.SkillID, ok bool) {
	c, _, ok := s.opts.Caps.Get(capKey(space, id))
	if !ok {
		return protocol.Party{}, "", false
	}
	return c.Owner, c.Skill, true
}

// OnFactsChange calls f whenever a Cap or the members of a group changed. It
// must not block.
func (s *Service) OnFactsChange(f func()) {
	s.opts.Caps.OnChange(func(string, *Cap, *Cap) { f() })
	s.opts.Groups.OnChange(func(string, *Group, *Group) { f() })
}
