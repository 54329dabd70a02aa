package registry

import "github.com/aibridge/aibridge/protocol"

// Risk is what a capability declares that can go wrong, "" for nothing or for
// one that there is not.
func (s *Service) Risk(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID) string {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return ""
	}
	for i := range r.Capabilities {
		if c := &r.Capabilities[i]; c.ID == capability {
			return c.Risk
		}
	}
	return ""
}
