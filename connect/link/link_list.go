package link

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var linkList = commands.Spec{
	Name:    "link.list",
	Summary: "List the links to other MQTT brokers, and how they are.",
	Effect:  commands.Read,
	Action:  "link:list",
	Example: `{}`,
}

// ListParams are the params of link.list.
type ListParams struct {
	Sort string `json:"sort,omitempty" enum:"id,-id,waiting,-waiting,lost,-lost" doc:"field to sort by, the highest first behind a minus; by name if absent"`
	listing.Page
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource { return commands.Resource{Type: "link"} }

// ListResult is one page of links.
type ListResult struct {
	Links      []View `json:"links" doc:"the links of this page, by name; empty if there are none"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A View is a link as callers see it in a list.
type View struct {
	Name    string           `json:"link" doc:"name of the link"`
	Bridge  string           `json:"bridge_id" doc:"bridge that runs it; in a cluster that is one for all links"`
	State   State            `json:"state" doc:"connecting, connected, down, or unknown: the bridge that runs it does not answer"`
	Since   int64            `json:"since" doc:"time at which it came into this state, Unix milliseconds"`
	Problem string           `json:"problem,omitempty" doc:"reason why it is down; absent while it is connected"`
	URL     string           `json:"url" doc:"address of the remote broker"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"space that its messages come from and go to; absent until its principal is known"`
	Waiting int              `json:"waiting" doc:"messages that the remote broker has not acknowledged, those that wait included"`
	Dropped uint64           `json:"dropped" doc:"messages that found the queue full, since the bridge started"`
	Lost    uint64           `json:"lost" doc:"number of losses of the connection, since the bridge started"`
}

var order = listing.Order[View]{
	ID: func(v View) string { return v.Name },
	Keys: map[string]func(View) listing.Key{
		"waiting": func(v View) listing.Key { return listing.Number(int64(v.Waiting)) },
		"lost":    func(v View) listing.Key { return listing.Number(int64(v.Lost)) },
	},
}

// List shows the links that act in the caller's space; all of them to a caller that
// is bound to none.
func (s *Service) List(ctx context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	found, err := order.Select(func(yield func(View) bool) {
		for _, v := range s.Visible(ctx, call.Principal) {
			if !yield(v.View) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	return ListResult{Links: found.Items, Total: found.Total, NextCursor: found.Next}, nil
}
