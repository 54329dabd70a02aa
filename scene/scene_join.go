package scene

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var join = commands.Spec{
	Name:    "scene.join",
	Summary: "Take part in a scene that exists.",
	Effect:  commands.Write,
	Action:  "scene:join",
	Errors: []protocol.Code{
		protocol.CertificateRequired, protocol.CertificateUnknown, protocol.CertificateExpired, protocol.CertificateRevoked,
		protocol.OutsideScope, protocol.ProofFailed, protocol.PermissionDenied, protocol.NotFound, protocol.AlreadyExists,
		protocol.LimitReached, protocol.InvalidState, protocol.RevisionConflict,
	},
	Example: `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"hall-lamp","skill_role":"light"}`,
}

// JoinParams are the params of scene.join.
type JoinParams struct {
	Scene protocol.SceneType `json:"scene_type" doc:"kind of scene"`
	Cap   protocol.CapID     `json:"cap_id" doc:"the Cap that is the channel of the scene"`
	Skill protocol.SkillID   `json:"skill_id" doc:"the skill that joins"`
	Role  string             `json:"skill_role,omitempty" len:"1-32" text:"line" default:"member" doc:"part in the scene; agent_route is a backup and takes the connection's certificate"`
}

// Target implements [commands.Targeter].
func (p JoinParams) Target() commands.Resource {
	return commands.Resource{Type: "scene", ID: id{p.Scene, p.Cap}.resource()}
}

// MemberResult is the result of scene.join and scene.leave.
type MemberResult struct {
	Scene    protocol.SceneType `json:"scene_type" doc:"type of the scene"`
	Cap      protocol.CapID     `json:"cap_id" doc:"id of the Cap that is the channel of the scene"`
	Skill    protocol.SkillID   `json:"skill_id" doc:"id of the skill"`
	Role     string             `json:"skill_role" doc:"role of the skill in the scene; after scene.leave, the role it had"`
	Revision uint64             `json:"revision" doc:"of the scene"`
}

// Join has a skill take part in a scene. Joining again in the same role changes
// nothing.
func (s *Service) Join(ctx context.Context, call *commands.Call, p JoinParams) (MemberResult, error) {
	if p.Role == "" {
		p.Role = MemberRole
	}
	c := declaration{id: id{p.Scene, p.Cap}, skill: p.Skill, role: p.Role}
	_, revision, err := s.enter(ctx, call, c, func(old *Scene, _ Member) (*Scene, error) {
		if old == nil {
			return nil, noScene(c.id)
		}
		return old, nil
	})
	if err != nil {
		return MemberResult{}, err
	}
	return MemberResult{p.Scene, p.Cap, p.Skill, p.Role, revision}, nil
}
