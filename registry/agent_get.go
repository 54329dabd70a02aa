package registry

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
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
	AgentID       protocol.AgentID `json:"agent_id" doc:"id of the agent, unique in its space"`
	Space         protocol.SpaceID `json:"space_id" doc:"id of the space that the agent lives in"`
	Type          AgentType        `json:"type" doc:"purpose of the agent: mcp_agent (gathers requests, talks to models), route_agent (hands commands out) or end_agent (does the work)"`
	Name          string           `json:"name,omitempty" doc:"name for people; absent if it gave none"`
	Endpoints     []string         `json:"endpoints,omitempty" doc:"URLs at which the agent says it is reached; absent if it gave none"`
	Tags          selector.Tags    `json:"tags,omitempty" doc:"names for selectors to choose it by; absent if it has none"`
	Owner         string           `json:"owner" doc:"id of the principal that registered the agent"`
	Status        Status           `json:"status" doc:"online; offline; or suspended, which is offline until it is registered anew because its certificate has ended"`
	Since         int64            `json:"since,omitempty" doc:"time of the last change of status, Unix milliseconds; absent if there was none since the bridge started"`
	LastHeartbeat int64            `json:"last_heartbeat,omitempty" doc:"time of the last heartbeat, Unix milliseconds; absent if there was none since the bridge started"`
	RegisteredAt  int64            `json:"registered_at" doc:"time of the first registration, Unix milliseconds"`
	UpdatedAt     int64            `json:"updated_at" doc:"time of the last registration that changed something, Unix milliseconds"`
}

// GetAgentResult is the result of agent.get.
type GetAgentResult struct {
	AgentView
	RequestTopic  string             `json:"request_topic" doc:"topic to which the bridge publishes requests for the agent"`
	ResponseTopic string             `json:"response_topic" doc:"topic on which the agent answers"`
	Skills        []protocol.SkillID `json:"skills" doc:"ids of the first 100 skills that the agent provides, by id"`
	SkillCount    int                `json:"skill_count" doc:"number of skills that the agent provides, also beyond the first 100"`
	Presence      []Change           `json:"presence" doc:"changes of its presence since the bridge started, the oldest first, at most 32"`
}

// GetAgent shows one agent.
func (s *Service) GetAgent(_ context.Context, call *commands.Call, p AgentParams) (GetAgentResult, error) {
	agent, err := s.agent(call, p.Space, p.AgentID)
	if err != nil {
		return GetAgentResult{}, err
	}
	skills := s.index.skillsOf(agent.Key())
	result := GetAgentResult{
		AgentView:     s.viewAgent(agent),
		RequestTopic:  s.opts.Topics.AgentRequest(agent.ID),
		ResponseTopic: s.opts.Topics.AgentResponse(agent.ID),
		Skills:        []protocol.SkillID{},
		SkillCount:    len(skills),
		Presence:      s.board.changes(agent.Key()),
	}
	for _, skill := range skills[:min(len(skills), 100)] {
		result.Skills = append(result.Skills, skill.ID)
	}
	return result, nil
}

func (s *Service) viewAgent(a *Agent) AgentView {
	seen := s.board.see(a.Key())
	return AgentView{
		AgentID:       a.ID,
		Space:         a.Space,
		Type:          a.Type,
		Name:          a.Name,
		Endpoints:     a.Endpoints,
		Tags:          a.Tags,
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
