package registry

import (
	"cmp"
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var skillJoinCreate = commands.Spec{
	Name:    "skill.join.create",
	Summary: "Make a token with which other agents can join those that provide a skill. It is shown once, in the answer.",
	Effect:  commands.Write,
	Action:  "skill:provide",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.LimitReached, protocol.InvalidState},
	Example: `{"skill_id":"heating","uses":10,"ttl_seconds":3600}`,
}

// CreateJoinParams are the params of skill.join.create.
type CreateJoinParams struct {
	SkillID protocol.SkillID `json:"skill_id" doc:"the skill"`
	Uses    int              `json:"uses,omitempty" range:"1-256" default:"1" doc:"number of agents that may join with it"`
	TTL     int              `json:"ttl_seconds,omitempty" range:"1-2592000" default:"86400" doc:"time for which it can be used, a day by default"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space the skill lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p CreateJoinParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// CreateJoinResult is the result of skill.join.create.
type CreateJoinResult struct {
	Token string `json:"token" doc:"goes into join of skill.register or agent.register; shown only here"`
	JoinView
}

// CreateJoin makes a join token for a skill, for its owner or an operator.
func (s *Service) CreateJoin(ctx context.Context, call *commands.Call, p CreateJoinParams) (CreateJoinResult, error) {
	skill, err := s.ownSkill(call, p.Space, p.SkillID)
	if err != nil {
		return CreateJoinResult{}, err
	}
	if s.opts.Joins == nil || s.opts.Stamp == nil {
		return CreateJoinResult{}, protocol.Errorf(protocol.InvalidState, "this bridge makes no join tokens")
	}
	if len(s.joinsOf(ctx, skill)) >= maxJoins {
		return CreateJoinResult{}, protocol.Errorf(protocol.LimitReached, "skill %q has %d join tokens already; skill.join.revoke takes some back", skill.ID, maxJoins).
			With("limit", maxJoins)
	}
	id, secret, text := newJoin()
	now := time.Now()
	life := time.Duration(cmp.Or(p.TTL, defaultJoinLife)) * time.Second
	j := &JoinRecord{
		ID: id, Space: skill.Space, Skill: skill.ID, Owner: skill.Owner, Since: skill.RegisteredAt, MAC: s.opts.Stamp(id, secret),
		Uses: cmp.Or(p.Uses, 1), Expires: now.Add(life).UnixMilli(), By: call.Principal.Party(), At: now.UnixMilli(),
	}
	if _, err := s.opts.Joins.Create(ctx, tableKey(j.Space, id), j); err != nil {
		return CreateJoinResult{}, err
	}
	return CreateJoinResult{Token: text, JoinView: j.view()}, nil
}

// ownSkill looks up a skill whose providers the caller decides about.
func (s *Service) ownSkill(call *commands.Call, named protocol.SpaceID, id protocol.SkillID) (*SkillRecord, error) {
	skill, err := s.skill(call, named, id)
	if err != nil {
		return nil, err
	}
	if !mayManage(call.Principal, skill.Owner) {
		return nil, notYours("skill", id)
	}
	return skill, nil
}
