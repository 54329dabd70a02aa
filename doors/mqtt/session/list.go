package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var list = commands.Spec{
	Name:    "session.list",
	Summary: "List the MQTT sessions of a space, connected and kept.",
	Effect:  commands.Read,
	Action:  "session:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"state":"connected","limit":20}`,
}

// ListParams choose sessions.
type ListParams struct {
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"the space of the sessions' owners, the caller's own by default"`
	State     State            `json:"state,omitempty" enum:"connected,kept" doc:"only sessions with a client, or without"`
	Principal string           `json:"principal,omitempty" len:"1-256" doc:"only sessions of this owner"`
	Limit     int              `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many to return at most"`
	Cursor    string           `json:"cursor,omitempty" len:"1-65535" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource {
	return commands.Resource{Type: "session", Space: p.Space}
}

// ListResult is one page of sessions.
type ListResult struct {
	Sessions   []View `json:"sessions" doc:"the sessions of this page, by client id; empty if none fits"`
	Total      int    `json:"total" doc:"how many there are on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"where the next page begins; absent on the last"`
}

// List shows the sessions of a space by client id. The cursor is the last id of
// the page before, so pages stay stable while sessions come and go.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Sessions: []View{}}
	var left []View // of this page and those that follow
	for i := range s.broker.Sessions() {
		if i.space() != space || p.State != "" && i.state() != p.State || p.Principal != "" && i.Principal != p.Principal {
			continue
		}
		result.Total++
		if i.ClientID > p.Cursor {
			left = append(left, i.view())
		}
	}
	slices.SortFunc(left, func(a, b View) int { return cmp.Compare(a.ClientID, b.ClientID) })
	limit := cmp.Or(p.Limit, 100)
	if len(left) > limit {
		left = left[:limit]
		result.NextCursor = left[limit-1].ClientID
	}
	result.Sessions = append(result.Sessions, left...)
	return result, nil
}
