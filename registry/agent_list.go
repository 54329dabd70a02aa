package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentList = commands.Spec{
	Name:    "agent.list",
	Summary: "List the agents of a space.",
	Effect:  commands.Read,
	Action:  "agent:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"type":"end_agent","status":"online","limit":20}`,
}

// ListAgentsParams are the params of agent.list.
type ListAgentsParams struct {
	Space  protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
	Type   AgentType        `json:"type,omitempty" enum:"mcp_agent,route_agent,end_agent" doc:"only agents of this type; route agents are listed while they are authorised and online, unless status says otherwise"`
	Status Status           `json:"status,omitempty" enum:"online,offline" doc:"only agents that are, or are not, there"`
	page
}

// Target implements [commands.Targeter].
func (p ListAgentsParams) Target() commands.Resource {
	return commands.Resource{Type: "agent", Space: p.Space}
}

// ListAgentsResult is the result of agent.list.
type ListAgentsResult struct {
	Agents     []AgentView `json:"agents" doc:"the agents of this page, by id; empty if none fits"`
	Total      int         `json:"total" doc:"number of agents on all pages"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// ListAgents lists the agents of a space by id.
func (s *Service) ListAgents(_ context.Context, call *commands.Call, p ListAgentsParams) (ListAgentsResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListAgentsResult{}, err
	}
	status := p.Status
	if status == "" && p.Type == RouteAgent {
		status = Online // only those that are there can be asked to route
	}
	q := query[*Agent]{limit: p.size(), after: p.Cursor}
	if p.Type != "" || status != "" {
		q.match = func(a *Agent) bool {
			there := status == "" || s.board.isOnline(a.key()) && (p.Type != RouteAgent || a.authorized())
			return (p.Type == "" || a.Type == p.Type) && (status == "" || there == (status == Online))
		}
	}
	found := s.index.agents(space, q)
	result := ListAgentsResult{Agents: make([]AgentView, len(found.items)), Total: found.total, NextCursor: found.next}
	for i, a := range found.items {
		result.Agents[i] = s.viewAgent(a)
	}
	return result, nil
}
