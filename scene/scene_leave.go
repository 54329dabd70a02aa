package scene

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var leave = commands.Spec{
	Name:    "scene.leave",
	Summary: "Take part in a scene no longer; the owner hands it to a backup.",
	Effect:  commands.Write,
	Action:  "scene:leave",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState, protocol.RevisionConflict,
	},
	Example: `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"hall-lamp"}`,
}

// LeaveParams are the params of scene.leave.
type LeaveParams struct {
	Scene protocol.SceneType `json:"scene_type" doc:"kind of scene"`
	Cap   protocol.CapID     `json:"cap_id" doc:"the Cap that is the channel of the scene"`
	Skill protocol.SkillID   `json:"skill_id" doc:"the skill that leaves"`
	Role  string             `json:"skill_role,omitempty" len:"1-32" doc:"the role it has; not needed"`
}

// Target implements [commands.Targeter].
func (p LeaveParams) Target() commands.Resource {
	return commands.Resource{Type: "scene", ID: id{p.Scene, p.Cap}.resource()}
}

// Leave takes a member out of a scene. The skill's own party may do so, and a
// principal that speaks for the owner. An owner that leaves is followed by its
// first backup; without one it cannot leave, only cancel the scene.
func (s *Service) Leave(ctx context.Context, call *commands.Call, p LeaveParams) (MemberResult, error) {
	space, i := call.Principal.Home(), id{p.Scene, p.Cap}
	role := p.Role
	_, revision, err := s.change(ctx, sceneKey(space, p.Scene, p.Cap), func(old *Scene) (*Scene, error) {
		if old == nil {
			return nil, noScene(i)
		}
		m := old.find(p.Skill)
		switch {
		case !s.mayRelease(call.Principal, old, p.Skill):
			return nil, notYours(p.Skill)
		case m == nil || p.Role != "" && p.Role != m.Role:
			return nil, stranger(i, p.Skill)
		}
		role = m.Role
		left := old.without(p.Skill)
		if left == nil {
			return nil, protocol.Errorf(protocol.InvalidState, "the owner of a scene without a backup cannot leave it").
				With("reason", "scene.declare.cancel ends it for all").With("scene_type", string(p.Scene)).With("cap_id", string(p.Cap))
		}
		left.UpdatedAt = s.opts.Now().UnixMilli()
		return s.settled(left), nil
	})
	if err != nil {
		return MemberResult{}, err
	}
	return MemberResult{p.Scene, p.Cap, p.Skill, role, revision}, nil
}

// mayRelease reports whether a principal may take a skill out of a scene.
func (s *Service) mayRelease(who *protocol.Principal, scene *Scene, skill protocol.SkillID) bool {
	if s.speaksFor(who, scene.Space, skill) || s.speaksFor(who, scene.Space, scene.Owner) {
		return true
	}
	m := scene.find(skill)
	return m != nil && m.Principal.Is(who)
}

// without is the scene without a member, nil if no member could own it then.
func (s *Scene) without(skill protocol.SkillID) *Scene {
	left := s.clone()
	left.Members = slices.Delete(left.Members, s.member(skill), s.member(skill)+1)
	if skill == s.Owner {
		heir := s.heir()
		if heir == nil {
			return nil
		}
		left.Owner = heir.Skill
	}
	return left
}
