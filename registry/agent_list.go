package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

var agentList = commands.Spec{
	Name:    "agent.list",
	Summary: "List the agents of a space.",
	Effect:  commands.Read,
	Action:  "agent:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"selector":"site=hall,skill.version>=1.4","status":"online","limit":20}`,
}

// ListAgentsParams are the params of agent.list.
type ListAgentsParams struct {
	Space  protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
	Type   AgentType        `json:"type,omitempty" enum:"mcp_agent,route_agent,end_agent" doc:"only agents of this type; route agents are listed while they are authorised and online, unless status says otherwise"`
	Status Status           `json:"status,omitempty" enum:"online,offline" doc:"only agents that are, or are not, there"`
	Chosen string           `json:"selector,omitempty" len:"1-2048" doc:"only agents that this selector chooses, such as site=hall,model in (x1,x2); see docs/protocol.md#selectors"`
	Find   string           `json:"find,omitempty" len:"1-128" doc:"only agents with this text in their id or name, whatever its case"`
	Sort   string           `json:"sort,omitempty" enum:"id,-id,name,-name,type,-type,status,-status,since,-since,registered_at,-registered_at" doc:"field to sort by, the highest first behind a minus; by id if absent"`
	listing.Page
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

// agentOrder are the fields that lists of agents can be sorted by.
func (s *Service) agentOrder() listing.Order[*Agent] {
	return listing.Order[*Agent]{
		ID: func(a *Agent) string { return string(a.ID) },
		Keys: map[string]func(*Agent) listing.Key{
			"name":          func(a *Agent) listing.Key { return listing.Text(a.Name) },
			"type":          func(a *Agent) listing.Key { return listing.Text(string(a.Type)) },
			"status":        func(a *Agent) listing.Key { return listing.Text(string(s.board.see(a.Key()).status())) },
			"since":         func(a *Agent) listing.Key { return listing.Number(unixMilli(s.board.see(a.Key()).since)) },
			"registered_at": func(a *Agent) listing.Key { return listing.Number(a.RegisteredAt) },
		},
	}
}

// ListAgents lists the agents of a space.
func (s *Service) ListAgents(_ context.Context, call *commands.Call, p ListAgentsParams) (ListAgentsResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListAgentsResult{}, err
	}
	status := p.Status
	if status == "" && p.Type == RouteAgent {
		status = Online // only online agents can be asked to route
	}
	if p.Chosen != "" {
		return s.listSelected(space, p, status)
	}
	match := p.matcher(s, status)
	found, err := s.index.agents(space, query[*Agent]{Page: p.Page, sort: p.Sort, order: s.agentOrder(), match: match})
	if err != nil {
		return ListAgentsResult{}, err
	}
	return s.agentPage(found), nil
}

// listSelected lists the agents that a selector chooses, by one of their skills
// where it asks for skills.
func (s *Service) listSelected(space protocol.SpaceID, p ListAgentsParams, status Status) (ListAgentsResult, error) {
	chosen, err := selector.ParseParam("selector", p.Chosen)
	if err != nil {
		return ListAgentsResult{}, err
	}
	match := p.matcher(s, status)
	found, err := s.agentOrder().Select(func(yield func(*Agent) bool) {
		for a := range s.selectAgents(space, chosen) {
			if (match == nil || match(a)) && !yield(a) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return ListAgentsResult{}, err
	}
	return s.agentPage(found), nil
}

// matcher is the condition of the other params, nil for none.
func (p *ListAgentsParams) matcher(s *Service, status Status) func(*Agent) bool {
	if p.Type == "" && status == "" && p.Find == "" {
		return nil
	}
	named := listing.Find(p.Find)
	return func(a *Agent) bool {
		there := status == "" || s.board.isOnline(a.Key()) && (p.Type != RouteAgent || a.authorized())
		return (p.Type == "" || a.Type == p.Type) && (status == "" || there == (status == Online)) && named.In(string(a.ID), a.Name)
	}
}

func (s *Service) agentPage(found listing.Selection[*Agent]) ListAgentsResult {
	result := ListAgentsResult{Agents: make([]AgentView, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, a := range found.Items {
		result.Agents[i] = s.viewAgent(a)
	}
	return result
}
