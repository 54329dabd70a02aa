package scene

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var declareCancel = commands.Spec{
	Name:    "scene.declare.cancel",
	Summary: "Take a declaration back: the owner's ends the scene for all, a member's its own part.",
	Effect:  commands.Write,
	Action:  "scene:declare.cancel",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.RevisionConflict},
	Example: `{"scene_type":"SMART_HOME","skill_id":"home-router","cap_id":"home"}`,
}

// CancelParams are the params of scene.declare.cancel.
type CancelParams struct {
	Scene protocol.SceneType `json:"scene_type" doc:"kind of scene"`
	Skill protocol.SkillID   `json:"skill_id" doc:"the skill whose declaration is taken back"`
	Cap   protocol.CapID     `json:"cap_id" doc:"the Cap that is the channel of the scene"`
}

// Target implements [commands.Targeter].
func (p CancelParams) Target() commands.Resource {
	return commands.Resource{Type: "scene", ID: id{p.Scene, p.Cap}.resource()}
}

// CancelResult is the result of scene.declare.cancel.
type CancelResult struct {
	Scene     protocol.SceneType `json:"scene_type" doc:"type of the scene"`
	Cancelled bool               `json:"cancelled" doc:"true"`
	Ended     bool               `json:"ended" doc:"true if the scene ended with it"`
}

// Cancel takes a declaration back.
func (s *Service) Cancel(ctx context.Context, call *commands.Call, p CancelParams) (CancelResult, error) {
	space, i := call.Principal.Home(), id{p.Scene, p.Cap}
	left, _, err := s.change(ctx, sceneKey(space, p.Scene, p.Cap), func(old *Scene) (*Scene, error) {
		switch {
		case old == nil:
			return nil, noScene(i)
		case !s.mayRelease(call.Principal, old, p.Skill):
			return nil, notYours(p.Skill)
		case old.member(p.Skill) < 0:
			return nil, stranger(i, p.Skill)
		case p.Skill == old.Owner:
			return nil, nil
		}
		left := old.without(p.Skill)
		left.UpdatedAt = s.opts.Now().UnixMilli()
		return s.settled(left), nil
	})
	if err != nil {
		return CancelResult{}, err
	}
	return CancelResult{p.Scene, true, left == nil}, nil
}
