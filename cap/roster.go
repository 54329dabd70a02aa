package cap

import "github.com/aibridge/aibridge/protocol"

// Roster lists the skills of a group that a dispatch would reach right now.
func (s *Service) Roster(space protocol.SpaceID, id protocol.CapID, group protocol.GroupID, by Selection) ([]protocol.SkillID, error) {
	c, ok := s.Lookup(space, id)
	if !ok {
		return nil, protocol.Errorf(protocol.NotFound, "there is no Cap %q", id).With("cap_id", string(id))
	}
	g, _, err := s.findGroup(c, group)
	if err != nil {
		return nil, err
	}
	chosen, err := s.choose(c, g, by)
	if err != nil {
		return nil, err
	}
	skills := make([]protocol.SkillID, len(chosen))
	for i, m := range chosen {
		skills[i] = m.Skill
	}
	return skills, nil
}
