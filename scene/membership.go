package scene

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// maxScenes is the number of scenes that may have the same Cap as their channel.
const maxScenes = 64

// enter has a skill take part in a scene. found makes a scene where there is
// none, and is given the scene that is there otherwise.
func (s *Service) enter(ctx context.Context, call *commands.Call, c declaration, found func(old *Scene, m Member) (*Scene, error)) (*Scene, uint64, error) {
	serial, err := s.certify(ctx, call, c)
	if err != nil {
		return nil, 0, err
	}
	if c.owner && c.role != RouteRole {
		return nil, 0, protocol.InvalidParam("is_owner_declaration", "only a RouteAgent, with the role "+RouteRole+", owns a scene")
	}
	channel, err := s.check(call, c.id, c.skill)
	if err != nil {
		return nil, 0, err
	}
	now := s.opts.Now()
	m := Member{Skill: c.skill, Role: c.role, Principal: call.Principal.Party(), Serial: serial, JoinedAt: now.UnixMilli()}
	key := sceneKey(call.Principal.Home(), c.scene, c.cap)
	if m.routes() {
		d := Declaration{Scene: key, Space: call.Principal.Home(), Skill: c.skill, Principal: m.Principal}
		s.Declared(d) // before the scene is checked
		if s.opts.Declared != nil {
			s.opts.Declared(ctx, d)
		}
	}
	return s.change(ctx, key, func(old *Scene) (*Scene, error) {
		scene, err := found(old, m)
		if err != nil || old == nil {
			return scene, err
		}
		if scene, err = scene.with(m, c, channel); err != nil {
			return nil, err
		}
		return s.settled(scene), nil
	})
}

// A Declaration is the notice that a RouteAgent has declared itself in a scene,
// which is a sign of life.
type Declaration struct {
	Scene     string           `json:"scene"` // key of its record
	Space     protocol.SpaceID `json:"space"`
	Skill     protocol.SkillID `json:"skill"`
	Principal protocol.Party   `json:"principal"`
}

// Declared has the RouteAgent of a declaration count as online for a while.
func (s *Service) Declared(d Declaration) {
	online := s.opts.Skills.RouteAgentOnline(d.Principal, d.Space, d.Skill)
	s.leases.grant(seat{d.Scene, d.Skill}, lease{s.opts.Now().Add(s.opts.Patience), online})
	s.SkillChanged(d.Space, d.Skill)
}

// with is the scene with a member that joins, or declares itself again.
func (s *Scene) with(m Member, c declaration, channel Channel) (*Scene, error) {
	owner := s.find(s.Owner)
	takesOver := c.owner && s.Owner != m.Skill
	if takesOver && owner != nil && owner.Barred == "" {
		return nil, protocol.Errorf(protocol.AlreadyExists, "scene %q is owned by skill %q; declare without is_owner_declaration to be its backup", s.Type, s.Owner).
			With("scene_type", string(s.Type)).With("cap_id", string(s.Cap)).With("owner", string(s.Owner))
	}
	changed := s.clone()
	if takesOver {
		changed.Owner = m.Skill
	}
	changed.UpdatedAt = m.JoinedAt
	i := s.member(m.Skill)
	if i < 0 {
		if len(s.Members) >= channel.MaxMembers {
			return nil, protocol.Errorf(protocol.LimitReached, "scene %q has %d members already", s.Type, len(s.Members)).
				With("scene_type", string(s.Type)).With("limit", channel.MaxMembers)
		}
		changed.Members = append(changed.Members, m)
		return changed, nil
	}
	was := s.Members[i]
	if was.Role != m.Role {
		return nil, protocol.Errorf(protocol.AlreadyExists, "skill %q takes part as %q already; leave the scene before you join it in another role", m.Skill, was.Role).
			With("skill_id", string(m.Skill)).With("skill_role", was.Role)
	}
	m.JoinedAt = was.JoinedAt
	if m == was && !takesOver {
		return s, nil
	}
	changed.Members[i] = m
	return changed, nil
}
