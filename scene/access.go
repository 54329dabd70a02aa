package scene

import (
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
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
	// RouteAgentOnline reports whether an agent is online that serves the
	// skill and was registered by the principal that declared it, or is
	// authorised by the skill's certificate.
	RouteAgentOnline(who protocol.Party, space protocol.SpaceID, skill protocol.SkillID) bool
}

// Channels answers the questions of a [Service] about Caps.
type Channels interface {
	// Channel describes a Cap. ok is whether there is one.
	Channel(space protocol.SpaceID, id protocol.CapID) (c Channel, ok bool)
	// Belongs reports whether a skill is a Cap's own or a member of one of
	// its groups.
	Belongs(space protocol.SpaceID, id protocol.CapID, skill protocol.SkillID) bool
}

// A Channel is the part of a Cap that matters to its scenes.
type Channel struct {
	Active     bool
	Scenes     []protocol.SceneType // that it can be the channel of, none for all
	MaxMembers int
}

// privileged reports whether a principal may change the things of others.
func privileged(who *protocol.Principal) bool {
	return who.HasRole(protocol.RoleAdministrator) || who.HasRole(protocol.RoleAnonymous)
}

// is reports whether a principal is a skill.
func is(who *protocol.Principal, skill protocol.SkillID) bool {
	return who.Kind == protocol.KindSkill && who.ID == string(skill)
}

// speaksFor reports whether a principal may act for a skill.
func (s *Service) speaksFor(who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) bool {
	if privileged(who) || is(who, skill) {
		return true
	}
	yes, _ := s.opts.Skills.SpeaksFor(who, space, skill)
	return yes
}

// check fails if a skill may not take part in a scene: it or the Cap is not there,
// or the two do not belong together.
func (s *Service) check(call *commands.Call, i id, skill protocol.SkillID) (Channel, error) {
	space := call.Principal.Home()
	channel, ok := s.opts.Channels.Channel(space, i.cap)
	if !ok {
		return Channel{}, protocol.Errorf(protocol.NotFound, "there is no Cap %q", i.cap).With("cap_id", string(i.cap))
	}
	if _, known := s.opts.Skills.SpeaksFor(call.Principal, space, skill); !known {
		return Channel{}, protocol.Errorf(protocol.NotFound, "there is no skill %q", skill).With("skill_id", string(skill))
	}
	var reason string
	switch {
	case !channel.Active:
		reason = "the Cap is inactive"
	case len(channel.Scenes) > 0 && !slices.Contains(channel.Scenes, i.scene):
		reason = "the Cap does not support this scene"
	case !s.opts.Channels.Belongs(space, i.cap, skill):
		reason = "the skill is neither the Cap's own nor a member of one of its groups"
	default:
		return channel, nil
	}
	return Channel{}, protocol.Errorf(protocol.InvalidState, "%s", reason).With("reason", reason).
		With("cap_id", string(i.cap)).With("skill_id", string(skill)).With("scene_type", string(i.scene))
}

func notYours(skill protocol.SkillID) error {
	return protocol.Errorf(protocol.PermissionDenied, "skill %q belongs to another party; send the request as its owner or as the skill", skill).With("skill_id", string(skill))
}

func noScene(i id) error {
	return protocol.Errorf(protocol.NotFound, "Cap %q has no scene %q", i.cap, i.scene).
		With("scene_type", string(i.scene)).With("cap_id", string(i.cap))
}

func stranger(i id, skill protocol.SkillID) error {
	return protocol.Errorf(protocol.NotFound, "skill %q takes no part in scene %q", skill, i.scene).
		With("scene_type", string(i.scene)).With("cap_id", string(i.cap)).With("skill_id", string(skill))
}
