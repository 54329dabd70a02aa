package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentUnregister = commands.Spec{
	Name:    "agent.unregister",
	Summary: "Take an agent out of the registry, and with it every skill that only it provides.",
	Effect:  commands.Write,
	Action:  "agent:unregister",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"agent_id":"lamp-1"}`,
}

// AgentParams are the params of commands about one agent.
type AgentParams struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"the agent"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p AgentParams) Target() commands.Resource {
	return commands.Resource{Type: "agent", ID: string(p.AgentID), Space: p.Space}
}

// UnregisterAgentResult is the result of agent.unregister.
type UnregisterAgentResult struct {
	AgentID protocol.AgentID   `json:"agent_id" doc:"id of the agent that was removed"`
	Status  Status             `json:"status" doc:"offline"`
	Skills  []protocol.SkillID `json:"skills" doc:"ids of the skills that were removed with it as nothing else provides them, at most 100"`
}

// UnregisterAgent removes an agent. It stops providing its skills; those with
// neither another agent nor an HTTP endpoint go with it. Its card is removed
// first: should the bridge die in between, the card comes back with the agent
// instead of outliving it.
func (s *Service) UnregisterAgent(ctx context.Context, call *commands.Call, p AgentParams) (UnregisterAgentResult, error) {
	agent, err := s.ownAgent(call, p.Space, p.AgentID)
	if err != nil {
		return UnregisterAgentResult{}, err
	}
	result := UnregisterAgentResult{AgentID: p.AgentID, Status: Offline, Skills: []protocol.SkillID{}}
	s.publishCard(agent.Key(), nil)
	for _, skill := range s.index.skillsOf(agent.Key()) {
		removed, err := s.withdrawProviders(ctx, agent.Space, skill.ID, func(p Provider) bool { return p.AgentID == agent.ID })
		if err != nil {
			s.card(agent.Key())
			return UnregisterAgentResult{}, err
		}
		if removed && len(result.Skills) < 100 {
			result.Skills = append(result.Skills, skill.ID)
		}
	}
	if err := s.opts.Agents.Delete(ctx, tableKey(agent.Space, agent.ID), 0); err != nil {
		s.card(agent.Key())
		return UnregisterAgentResult{}, err
	}
	return result, nil
}

// ownAgent looks up an agent that the caller may change.
func (s *Service) ownAgent(call *commands.Call, named protocol.SpaceID, id protocol.AgentID) (*Agent, error) {
	a, err := s.agent(call, named, id)
	if err != nil {
		return nil, err
	}
	if !mayManage(call.Principal, a.Owner) && !a.BelongsTo(call.Principal) {
		return nil, notYours("agent", id)
	}
	return a, nil
}

// agent looks up an agent that the caller may see.
func (s *Service) agent(call *commands.Call, named protocol.SpaceID, id protocol.AgentID) (*Agent, error) {
	space, err := in(call, named)
	if err != nil {
		return nil, notFound("agent", id)
	}
	a, _, ok := s.opts.Agents.Get(tableKey(space, id))
	if !ok {
		return nil, s.missing(call.Principal, named, "agent", string(id), agentOf(id))
	}
	return a, nil
}
