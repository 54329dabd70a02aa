package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var skillJoinList = commands.Spec{
	Name:    "skill.join.list",
	Summary: "List the join tokens of a skill that can still be used, without their secrets.",
	Effect:  commands.Read,
	Action:  "skill:joins",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"skill_id":"heating"}`,
}

// SkillParams are the params of commands about one skill.
type SkillParams struct {
	SkillID protocol.SkillID `json:"skill_id" doc:"the skill"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p SkillParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// ListJoinsResult is the result of skill.join.list.
type ListJoinsResult struct {
	Joins []JoinView `json:"joins" doc:"by id; a skill has at most 32"`
	Total int        `json:"total" doc:"number of join tokens that can still be used, at most 32"`
}

// ListJoins lists the join tokens of a skill, for its owner or an operator.
func (s *Service) ListJoins(ctx context.Context, call *commands.Call, p SkillParams) (ListJoinsResult, error) {
	skill, err := s.ownSkill(call, p.Space, p.SkillID)
	if err != nil {
		return ListJoinsResult{}, err
	}
	result := ListJoinsResult{Joins: []JoinView{}}
	if s.opts.Joins != nil {
		for _, j := range s.joinsOf(ctx, skill) {
			result.Joins = append(result.Joins, j.view())
		}
	}
	result.Total = len(result.Joins)
	return result, nil
}
