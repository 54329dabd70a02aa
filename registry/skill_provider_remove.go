package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var skillProviderRemove = commands.Spec{
	Name:    "skill.provider.remove",
	Summary: "Stop an agent from providing a skill, as the skill's owner or as an operator.",
	Effect:  commands.Write,
	Action:  "skill:provide",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"skill_id":"heating","agent_id":"thermostat-2"}`,
}

// RemoveProvider takes an agent from those that provide a skill: it gets no more
// calls, and cannot come back unless it is admitted again. A skill that is left
// without agents and HTTP endpoints is removed.
func (s *Service) RemoveProvider(ctx context.Context, call *commands.Call, p ProviderParams) (UnregisterSkillResult, error) {
	skill, err := s.ownSkill(call, p.Space, p.SkillID)
	if err != nil {
		return UnregisterSkillResult{}, err
	}
	if skill.provider(p.AgentID) < 0 {
		return UnregisterSkillResult{}, notFound("agent", p.AgentID)
	}
	if err := s.barJoins(ctx, skill, p.AgentID); err != nil {
		return UnregisterSkillResult{}, err
	}
	removed, err := s.withdrawProviders(ctx, skill.Space, skill.ID, func(held Provider) bool { return held.AgentID == p.AgentID })
	return UnregisterSkillResult{SkillID: p.SkillID, Removed: removed}, err
}
