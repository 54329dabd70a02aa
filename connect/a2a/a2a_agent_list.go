package a2a

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var agentList = commands.Spec{
	Name:    "a2a.agent.list",
	Summary: "List the agents elsewhere that a space uses, or that wait for approval.",
	Effect:  commands.Read,
	Action:  "a2a:agent.list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"state":"changed"}`,
}

// ListParams are the params of a2a.agent.list.
type ListParams struct {
	State State            `json:"state,omitempty" enum:"new,approved,changed" doc:"only agents in this state"`
	Space protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
	Sort  string           `json:"sort,omitempty" enum:"id,-id,added_at,-added_at" doc:"field to sort by, the highest first behind a minus; by id if absent"`
	listing.Page
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource {
	return commands.Resource{Type: "agent", Space: p.Space}
}

// ListResult is the result of a2a.agent.list.
type ListResult struct {
	Agents     []View `json:"agents" doc:"the agents of this page; empty if there are none"`
	Total      int    `json:"total" doc:"number of agents on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// order sorts lists of agents.
var order = listing.Order[*Agent]{
	ID:   func(a *Agent) string { return string(a.ID) },
	Keys: map[string]func(*Agent) listing.Key{"added_at": func(a *Agent) listing.Key { return listing.Number(a.AddedAt) }},
}

// List lists the agents of a space.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListResult{}, err
	}
	found, err := order.Select(func(yield func(*Agent) bool) {
		for _, a := range s.opts.Table.All() {
			if a.Space == space && (p.State == "" || a.state() == p.State) && !yield(a) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Agents: make([]View, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, a := range found.Items {
		result.Agents[i] = a.view()
	}
	return result, nil
}
