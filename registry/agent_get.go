package registry

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentGet = commands.Spec{
	Name:    "agent.get",
	Summary: "Show an agent.",
	Effect:  commands.Read,
	Action:  "agent:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"agent_id":"lamp-1"}`,
}

// An AgentView is an agent as callers see it.
type AgentView struct {
	AgentID       protocol.AgentID `json:"agent_id"`
	Space         protocol.SpaceID `json:"space_id"`
	Type          AgentType        `json:"type"`
	Name          string           `json:"name,omitempty"`
	Endpoints     []string         `json:"endpoints,omitempty"`
	Owner         string           `json:"owner"` // id of who registered it
	Status        Status           `json:"status"`
	Since         int64            `json:"since,omitempty"`          // when status last changed, Unix milliseconds
	LastHeartbeat int64            `json:"last_heartbeat,omitempty"` // Unix milliseconds
	RegisteredAt  int64            `json:"registered_at"`            // Unix milliseconds
	UpdatedAt     int64            `json:"updated_at"`               // Unix milliseconds
}

// GetAgentResult is the result of agent.get.
type GetAgentResult struct {
	AgentView
	RequestTopic  string             `json:"request_topic"`
	ResponseTopic string             `json:"response_topic"`
	Skills        []protocol.SkillID `json:"skills"` // the first 100 by id
	SkillCount    int                `json:"skill_count"`
}

// GetAgent shows one agent.
func (s *Service) GetAgent(_ context.Context, call *commands.Call, p AgentParams) (GetAgentResult, error) {
	agent, err := s.agent(call, p.Space, p.AgentID)
	if err != nil {
		return GetAgentResult{}, err
	}
	skills := s.index.skillsOf(agent.key())
	result := GetAgentResult{
		AgentView:     s.viewAgent(agent),
		RequestTopic:  s.opts.Topics.AgentRequest(agent.ID),
		ResponseTopic: s.opts.Topics.AgentResponse(agent.ID),
		Skills:        []protocol.SkillID{},
		SkillCount:    len(skills),
	}
	for _, skill := range skills[:min(len(skills), 100)] {
		result.Skills = append(result.Skills, skill.ID)
	}
	return result, nil
}

func (s *Service) viewAgent(a *Agent) AgentView {
	seen := s.board.see(a.key())
	return AgentView{
		AgentID:       a.ID,
		Space:         a.Space,
		Type:          a.Type,
		Name:          a.Name,
		Endpoints:     a.Endpoints,
		Owner:         a.Owner.ID,
		Status:        seen.status(),
		Since:         unixMilli(seen.since),
		LastHeartbeat: unixMilli(seen.lastBeat),
		RegisteredAt:  a.RegisteredAt,
		UpdatedAt:     a.UpdatedAt,
	}
}

// unixMilli is t in Unix milliseconds, 0 for no time at all.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
