package session

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
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
	Find      string           `json:"find,omitempty" len:"1-128" doc:"only sessions with this text in their client id or owner, whatever its case"`
	Sort      string           `json:"sort,omitempty" enum:"id,-id,principal,-principal,subscriptions,-subscriptions,inflight,-inflight,queued,-queued,dropped,-dropped,late,-late" doc:"field to sort by, the highest first behind a minus: -late has first for whom messages have waited longest; by client id if absent"`
	Limit     int              `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number to return at most"`
	Cursor    string           `json:"cursor,omitempty" len:"1-88000" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource {
	return commands.Resource{Type: "session", Space: p.Space}
}

// ListResult is one page of sessions.
type ListResult struct {
	Sessions   []View `json:"sessions" doc:"the sessions of this page, by client id; empty if none fits"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
	// Silent are bridges whose sessions are missing.
	Silent []string `json:"silent,omitempty" doc:"bridges of the cluster that did not answer: their sessions are not in the list"`
}

// order holds the columns that lists of sessions can be sorted by.
var order = listing.Order[View]{
	ID: func(v View) string { return v.ClientID },
	Keys: map[string]func(View) listing.Key{
		"principal":     func(v View) listing.Key { return listing.Text(v.Principal) },
		"subscriptions": func(v View) listing.Key { return listing.Number(int64(v.Subscriptions)) },
		"inflight":      func(v View) listing.Key { return listing.Number(int64(v.Inflight)) },
		"queued":        func(v View) listing.Key { return listing.Number(int64(v.Queued)) },
		"dropped":       func(v View) listing.Key { return listing.Number(v.Dropped) },
		"late":          func(v View) listing.Key { return listing.Number(v.late()) },
	},
}

// late grows with the time for which messages have waited for the client.
func (v *View) late() int64 {
	if v.LateSince == 0 {
		return 0
	}
	return math.MaxInt64 - v.LateSince
}

// List shows the sessions of a space.
func (s *Service) List(ctx context.Context, call *commands.Call, p ListParams) (_ ListResult, err error) {
	if p.Space, err = in(call, p.Space); err != nil {
		return ListResult{}, err
	}
	if s.others == nil {
		return s.list(p)
	}
	wanted := p
	wanted.Limit = listing.Page{Limit: p.Limit}.Size() + 1 // or nobody would know that there are more
	var elsewhere ListResult
	s.others.Ask(ctx, list.Name, wanted, func(bridge string, result json.RawMessage, err error) {
		var its ListResult
		if err == nil {
			err = json.Unmarshal(result, &its)
		}
		if err != nil {
			elsewhere.Silent = append(elsewhere.Silent, bridge)
			return
		}
		elsewhere.Sessions = append(elsewhere.Sessions, its.Sessions...)
		elsewhere.Total += its.Total - len(its.Sessions)
	})
	slices.Sort(elsewhere.Silent)
	return s.listWith(p, &elsewhere)
}

// list lists the sessions that this bridge has.
func (s *Service) list(p ListParams) (ListResult, error) { return s.listWith(p, &ListResult{}) }

// listWith lists them together with a page of those of other bridges.
func (s *Service) listWith(p ListParams, elsewhere *ListResult) (ListResult, error) {
	named := listing.Find(p.Find)
	matching := func(yield func(View) bool) {
		for i := range s.broker.Sessions() {
			if i.space() != p.Space || p.State != "" && i.state() != p.State || p.Principal != "" && i.Principal != p.Principal {
				continue
			}
			if named.In(i.ClientID, i.Principal) && !yield(s.view(&i)) {
				return
			}
		}
		for _, v := range elsewhere.Sessions {
			if !yield(v) {
				return
			}
		}
	}
	found, err := order.Select(matching, p.Sort, listing.Page{Limit: p.Limit, Cursor: p.Cursor})
	if err != nil {
		return ListResult{}, err
	}
	return ListResult{Sessions: found.Items, Total: found.Total + elsewhere.Total, NextCursor: found.Next, Silent: elsewhere.Silent}, nil
}
