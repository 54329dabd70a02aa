package cap

import (
	"iter"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// Skills answers the questions of a [Service] about skills.
type Skills interface {
	// SpeaksFor reports whether a principal may speak for a skill: because it
	// registered it or serves it. known is whether there is such a skill.
	SpeaksFor(who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) (yes, known bool)
	// ServedBy lists the skills that an agent serves.
	ServedBy(space protocol.SpaceID, agent protocol.AgentID) []protocol.SkillID
	// SkillOnline reports whether a skill can be expected to answer.
	SkillOnline(space protocol.SpaceID, skill protocol.SkillID) bool
	// Select yields the agents, each with those of its skills that have a
	// capability, "" for any, that a selector chooses.
	Select(space protocol.SpaceID, chosen *selector.Selector, capability protocol.CapabilityID) iter.Seq2[protocol.AgentID, protocol.SkillID]
}

// privileged reports whether a principal may change the things of others in its
// space.
func privileged(who *protocol.Principal) bool { return who.Manages(who.Home()) }

// is reports whether a principal is a skill.
func is(who *protocol.Principal, skill protocol.SkillID) bool {
	return who.Kind == protocol.KindSkill && who.ID == string(skill)
}

// owns reports whether a principal may change a Cap: it declared it, it is the
// skill the Cap belongs to, or it may change everything.
func owns(who *protocol.Principal, c *Cap) bool {
	return privileged(who) || c.Owner.Is(who) || is(who, c.Skill)
}

// speaksFor reports whether a principal may act for a skill.
func (s *Service) speaksFor(who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) bool {
	if privileged(who) || is(who, skill) {
		return true
	}
	yes, _ := s.opts.Skills.SpeaksFor(who, space, skill)
	return yes
}

// takesPart reports whether a principal owns the Cap or speaks for one of the
// members of a group.
func (s *Service) takesPart(who *protocol.Principal, c *Cap, g *Group) bool {
	if owns(who, c) {
		return true
	}
	if who.Kind == protocol.KindSkill {
		return g.member(protocol.SkillID(who.ID)) >= 0
	}
	for i := range g.Members {
		if s.speaksFor(who, c.Space, g.Members[i].Skill) {
			return true
		}
	}
	return false
}

// find looks up a Cap of the caller's space.
func (s *Service) find(call *commands.Call, id protocol.CapID) (*Cap, uint64, error) {
	c, revision, ok := s.opts.Caps.Get(capKey(call.Principal.Home(), id))
	if !ok {
		return nil, 0, noCap(id)
	}
	return c, revision, nil
}

// findActive looks up a Cap that is in use.
func (s *Service) findActive(call *commands.Call, id protocol.CapID) (*Cap, error) {
	c, _, err := s.find(call, id)
	if err == nil && c.Status != Active {
		err = protocol.Errorf(protocol.InvalidState, "Cap %q is inactive; cap.update with status active lets it work again", id).With("cap_id", string(id)).With("status", string(c.Status))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func noCap(id protocol.CapID) error {
	return protocol.Errorf(protocol.NotFound, "there is no Cap %q", id).With("cap_id", string(id))
}

func notYours(c *Cap) error {
	return protocol.Errorf(protocol.PermissionDenied, "Cap %q belongs to skill %q; only its owner may do this", c.ID, c.Skill).With("cap_id", string(c.ID))
}

func notMember(c *Cap, group protocol.GroupID) error {
	return protocol.Errorf(protocol.PermissionDenied, "you are not a member of group %q; the owner of the Cap adds members", group).
		With("cap_id", string(c.ID)).With("group_id", string(group))
}

func noGroup(c *Cap, group protocol.GroupID) error {
	return protocol.Errorf(protocol.NotFound, "Cap %q has no group %q", c.ID, group).
		With("cap_id", string(c.ID)).With("group_id", string(group))
}

func stranger(g *Group, skill protocol.SkillID) error {
	return protocol.Errorf(protocol.NotFound, "skill %q is not a member of group %q", skill, g.ID).
		With("group_id", string(g.ID)).With("skill_id", string(skill))
}

func conflict(what string, expected, found uint64) error {
	return protocol.Errorf(protocol.RevisionConflict, "%s has revision %d; read it again and repeat the change", what, found).
		With("expected", expected).With("revision", found)
}
