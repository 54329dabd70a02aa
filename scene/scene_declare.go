package scene

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var declare = commands.Spec{
	Name:    "scene.declare",
	Summary: "Create a scene, or take part in one that exists.",
	Effect:  commands.Write,
	Action:  "scene:declare",
	Errors: []protocol.Code{
		protocol.CertificateRequired, protocol.CertificateUnknown, protocol.CertificateExpired, protocol.CertificateRevoked,
		protocol.OutsideScope, protocol.ProofFailed, protocol.PermissionDenied, protocol.NotFound, protocol.AlreadyExists,
		protocol.LimitReached, protocol.InvalidState, protocol.RevisionConflict,
	},
	Example: `{"scene_type":"SMART_HOME","skill_id":"home-router","skill_role":"agent_route","is_owner_declaration":true,"cap_id":"home","cert_sn":"8a1b2c3d4e5f6a7b"}`,
}

// DeclareParams are the params of scene.declare.
type DeclareParams struct {
	Scene  protocol.SceneType `json:"scene_type" doc:"kind of scene"`
	Skill  protocol.SkillID   `json:"skill_id" doc:"the skill that takes part"`
	Role   string             `json:"skill_role" len:"1-32" text:"line" doc:"part in the scene; agent_route is a RouteAgent and takes a certificate"`
	Owner  bool               `json:"is_owner_declaration" doc:"true if it declares to own the scene; a RouteAgent that does not is a backup, unless it is the first"`
	Cap    protocol.CapID     `json:"cap_id" doc:"the Cap that is the channel of the scene"`
	CertSN string             `json:"cert_sn,omitempty" doc:"serial of the certificate, 16 hexadecimal digits; that of the connection when absent"`
}

// Target implements [commands.Targeter].
func (p DeclareParams) Target() commands.Resource {
	return commands.Resource{Type: "scene", ID: id{p.Scene, p.Cap}.resource()}
}

// DeclareResult is the result of scene.declare.
type DeclareResult struct {
	Scene    protocol.SceneType `json:"scene_type" doc:"type of the scene"`
	Skill    protocol.SkillID   `json:"skill_id" doc:"id of the skill that takes part"`
	Role     string             `json:"skill_role" doc:"role of the skill in the scene"`
	Cap      protocol.CapID     `json:"cap_id" doc:"id of the Cap that is the channel of the scene"`
	Revision uint64             `json:"revision" doc:"number of the stored version of the scene; rises with every change"`
	Created  bool               `json:"created" doc:"true if this declaration created the scene"`
}

// Declare creates a scene or adds a skill to it. An equal second declaration
// changes nothing; with another certificate, that one is used from then on.
func (s *Service) Declare(ctx context.Context, call *commands.Call, p DeclareParams) (DeclareResult, error) {
	c := declaration{id: id{p.Scene, p.Cap}, skill: p.Skill, role: p.Role, owner: p.Owner, named: p.CertSN}
	created := false
	scene, revision, err := s.enter(ctx, call, c, func(old *Scene, m Member) (*Scene, error) {
		created = old == nil
		if created {
			return s.founded(call, c, m)
		}
		return old, nil
	})
	if err != nil {
		return DeclareResult{}, err
	}
	return DeclareResult{p.Scene, p.Skill, scene.find(p.Skill).Role, p.Cap, revision, created}, nil
}

// founded is a new scene with its owner.
func (s *Service) founded(call *commands.Call, c declaration, m Member) (*Scene, error) {
	if !m.routes() {
		return nil, protocol.Errorf(protocol.CertificateRequired, "the first declaration of a scene comes from an authorised RouteAgent").
			With("scene_type", string(c.scene)).With("skill_role", RouteRole)
	}
	space := call.Principal.Home()
	if n := s.index.countOf(space, c.cap); n >= maxScenes {
		return nil, protocol.Errorf(protocol.LimitReached, "Cap %q has %d scenes already", c.cap, n).
			With("cap_id", string(c.cap)).With("limit", maxScenes)
	}
	return &Scene{
		Space: space, Type: c.scene, Cap: c.cap, Owner: c.skill, Acting: c.skill,
		Members: []Member{m}, DeclaredAt: m.JoinedAt, UpdatedAt: m.JoinedAt,
	}, nil
}
