package registry

import (
	"context"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var skillProviderAdd = commands.Spec{
	Name:    "skill.provider.add",
	Summary: "Have another agent provide a skill, as the skill's owner or as an operator.",
	Effect:  commands.Write,
	Action:  "skill:provide",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.LimitReached},
	Example: `{"skill_id":"heating","agent_id":"thermostat-2"}`,
}

// ProviderParams are the params of skill.provider.add and
// skill.provider.remove.
type ProviderParams struct {
	SkillID protocol.SkillID `json:"skill_id" doc:"the skill"`
	AgentID protocol.AgentID `json:"agent_id" doc:"the agent, which must be registered"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space both live in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p ProviderParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// ProvidersResult lists the providers of a skill.
type ProvidersResult struct {
	SkillID  protocol.SkillID   `json:"skill_id" doc:"id of the skill"`
	AgentIDs []protocol.AgentID `json:"agent_ids" doc:"ids of the agents that provide the skill now"`
	Revision uint64             `json:"revision" doc:"number of the stored version of the skill; rises with every change"`
}

// AddProvider makes a registered agent one of those that provide a skill. The
// agent gets calls from then on, and may register the skill, as its owner
// describes it, again.
func (s *Service) AddProvider(ctx context.Context, call *commands.Call, p ProviderParams) (ProvidersResult, error) {
	skill, err := s.ownSkill(call, p.Space, p.SkillID)
	if err != nil {
		return ProvidersResult{}, err
	}
	agent, err := s.agent(call, p.Space, p.AgentID)
	if err != nil {
		return ProvidersResult{}, err
	}
	r, revision, err := records.Change(ctx, s.opts.Skills, tableKey(skill.Space, skill.ID), func(old *SkillRecord, _ uint64) (*SkillRecord, error) {
		if old == nil || !mayManage(call.Principal, old.Owner) { // it went, or is another's by now
			return nil, notFound("skill", p.SkillID)
		}
		r := *old
		r.Providers, r.UpdatedAt = slices.Clone(old.Providers), time.Now().UnixMilli()
		if added, err := r.add(agent, agent.Owner); err != nil || !added {
			return old, err
		}
		return &r, nil
	})
	if err != nil {
		return ProvidersResult{}, err
	}
	return providersOf(r, revision), nil
}

func providersOf(r *SkillRecord, revision uint64) ProvidersResult {
	result := ProvidersResult{SkillID: r.ID, AgentIDs: []protocol.AgentID{}, Revision: revision}
	for _, p := range r.Providers {
		result.AgentIDs = append(result.AgentIDs, p.AgentID)
	}
	return result
}
