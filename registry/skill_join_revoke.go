package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var skillJoinRevoke = commands.Spec{
	Name:    "skill.join.revoke",
	Summary: "Take a join token back. The agents that it has let in stay.",
	Effect:  commands.Write,
	Action:  "skill:provide",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"skill_id":"heating","token_id":"0123456789abcdef"}`,
}

// RevokeJoinParams are the params of skill.join.revoke.
type RevokeJoinParams struct {
	SkillID protocol.SkillID `json:"skill_id" doc:"the skill it is of"`
	TokenID string           `json:"token_id" len:"16" pattern:"^[0-9a-f]+$" doc:"the token, as skill.join.list shows it"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space the skill lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p RevokeJoinParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// RevokeJoin takes a join token of a skill back, for its owner or an operator.
func (s *Service) RevokeJoin(ctx context.Context, call *commands.Call, p RevokeJoinParams) (JoinView, error) {
	skill, err := s.ownSkill(call, p.Space, p.SkillID)
	if err != nil {
		return JoinView{}, err
	}
	unknown := protocol.Errorf(protocol.NotFound, "skill %q has no join token %q", p.SkillID, p.TokenID).With("token_id", p.TokenID)
	if s.opts.Joins == nil {
		return JoinView{}, unknown
	}
	key := tableKey(skill.Space, p.TokenID)
	j, _, ok := s.opts.Joins.Get(key)
	if !ok || !j.isFor(skill) {
		return JoinView{}, unknown
	}
	return j.view(), s.opts.Joins.Delete(ctx, key, 0)
}
