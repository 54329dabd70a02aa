package registry

import (
	"context"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var skillUnregister = commands.Spec{
	Name:    "skill.unregister",
	Summary: "Stop an agent from providing a skill, or remove the skill.",
	Effect:  commands.Write,
	Action:  "skill:unregister",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"skill_id":"heating"}`,
}

// UnregisterSkillParams are the params of skill.unregister.
type UnregisterSkillParams struct {
	SkillID protocol.SkillID `json:"skill_id" doc:"the skill"`
	AgentID protocol.AgentID `json:"agent_id,omitempty" doc:"the agent that stops providing it; by default the sender, if that provides it"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p UnregisterSkillParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// UnregisterSkillResult is the result of skill.unregister.
type UnregisterSkillResult struct {
	SkillID protocol.SkillID `json:"skill_id" doc:"id of the skill"`
	Removed bool             `json:"removed" doc:"true if the skill is gone; false if other agents or an HTTP endpoint still provide it"`
}

// UnregisterSkill withdraws the caller's part in a skill, narrowest first: the
// agent it names, or the agent it is; else, for its owner, the whole skill; else
// every agent the caller made a provider. A skill without agents and HTTP endpoints
// is removed.
func (s *Service) UnregisterSkill(ctx context.Context, call *commands.Call, p UnregisterSkillParams) (UnregisterSkillResult, error) {
	skill, err := s.skill(call, p.Space, p.SkillID)
	if err != nil {
		return UnregisterSkillResult{}, err
	}
	which, err := withdrawn(skill, call, p.AgentID)
	if err != nil {
		return UnregisterSkillResult{}, err
	}
	result := UnregisterSkillResult{SkillID: p.SkillID, Removed: true}
	if which == nil {
		if err = s.keepName(ctx, skill); err == nil {
			err = s.opts.Skills.Delete(ctx, tableKey(skill.Space, skill.ID), 0)
		}
	} else {
		result.Removed, err = s.withdrawProviders(ctx, skill.Space, skill.ID, which)
	}
	return result, err
}

// withdrawn are the providers that a caller's skill.unregister withdraws; nil means
// the whole skill.
func withdrawn(skill *SkillRecord, call *commands.Call, named protocol.AgentID) (which func(Provider) bool, err error) {
	owns := mayManage(call.Principal, skill.Owner)
	is := func(id protocol.AgentID) func(Provider) bool {
		return func(p Provider) bool { return p.AgentID == id }
	}
	sender := protocol.AgentID(call.SenderID)
	mine := func(p Provider) bool { return p.Owner.Is(call.Principal) }
	switch {
	case named != "" && !slices.ContainsFunc(skill.Providers, is(named)):
		return nil, notFound("agent", named)
	case named != "" && !owns && !slices.ContainsFunc(skill.Providers, func(p Provider) bool { return is(named)(p) && mine(p) }):
		return nil, notYours("skill", skill.ID)
	case named != "":
		return is(named), nil
	case slices.ContainsFunc(skill.Providers, func(p Provider) bool { return is(sender)(p) && mine(p) }):
		return is(sender), nil
	case owns:
		return nil, nil
	case slices.ContainsFunc(skill.Providers, mine):
		return mine, nil
	}
	return nil, notYours("skill", skill.ID)
}

// withdrawProviders takes providers from a skill. It reports whether nothing
// was left that could serve it, so that the skill was removed.
func (s *Service) withdrawProviders(ctx context.Context, space protocol.SpaceID, id protocol.SkillID, which func(Provider) bool) (removed bool, err error) {
	left, _, err := records.Change(ctx, s.opts.Skills, tableKey(space, id), func(old *SkillRecord, _ uint64) (*SkillRecord, error) {
		if old == nil || !slices.ContainsFunc(old.Providers, which) {
			return old, nil
		}
		r := *old
		r.Providers = slices.DeleteFunc(slices.Clone(old.Providers), which)
		r.UpdatedAt = time.Now().UnixMilli()
		if len(r.Providers) == 0 && len(r.overHTTP()) == 0 {
			return nil, s.keepName(ctx, old)
		}
		return &r, nil
	})
	return left == nil && err == nil, err
}

// skill looks up a skill that the caller may see.
func (s *Service) skill(call *commands.Call, named protocol.SpaceID, id protocol.SkillID) (*SkillRecord, error) {
	space, err := in(call, named)
	if err != nil {
		return nil, notFound("skill", id)
	}
	r, _, ok := s.opts.Skills.Get(tableKey(space, id))
	if !ok {
		return nil, s.missing(call.Principal, named, "skill", string(id), skillOf(id))
	}
	return r, nil
}
