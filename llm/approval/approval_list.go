package approval

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var approvalList = commands.Spec{
	Name:    "approval.list",
	Summary: "List the calls of tools that wait for approval, and what became of others; the latest first.",
	Effect:  commands.Read,
	Action:  "approval:list",
	Example: `{"state":"pending"}`,
}

// ListParams are the params of approval.list.
type ListParams struct {
	State   State  `json:"state,omitempty" enum:"pending,approved,used,denied,expired,withdrawn" doc:"only those in this state"`
	Over    bool   `json:"over,omitempty" doc:"only those in a final state: used, denied, expired, withdrawn"`
	Mine    bool   `json:"mine,omitempty" doc:"only those that the caller may decide and has not approved yet"`
	Tool    string `json:"tool,omitempty" len:"1-256" doc:"only calls of this tool"`
	Hash    string `json:"hash,omitempty" len:"64" doc:"only calls with this hash: the same tool, arguments and roster"`
	TraceID string `json:"trace_id,omitempty" len:"1-128" doc:"only calls of this trace"`
	Find    string `json:"find,omitempty" len:"1-128" doc:"only those with this text in tool, title, requester or arguments, regardless of case"`
	Sort    string `json:"sort,omitempty" enum:"id,-id,tool,-tool,requester,-requester,expires_at,-expires_at,decided_at,-decided_at" doc:"field to sort by, the highest first behind a minus; the latest first if absent"`
	listing.Page
}

// ListResult is the result of approval.list.
type ListResult struct {
	Approvals  []Approval `json:"approvals" doc:"the approvals of this page, the newest first; empty if none fits"`
	Total      int        `json:"total" doc:"number on all pages"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// order are the fields that lists of approvals can be sorted by. Ids rise with time.
var order = listing.Order[*Record]{
	ID: func(r *Record) string { return r.ID },
	Keys: map[string]func(*Record) listing.Key{
		"tool":       func(r *Record) listing.Key { return listing.Text(r.Tool) },
		"requester":  func(r *Record) listing.Key { return listing.Text(r.Requester) },
		"expires_at": func(r *Record) listing.Key { return listing.Number(r.Expires) },
		"decided_at": func(r *Record) listing.Key { return listing.Number(r.DecidedAt) },
	},
	Default: "-id",
}

// matches reports whether the params select an approval.
func (p *ListParams) matches(r *Record, named listing.Finder) bool {
	switch {
	case p.State != "" && r.State != p.State, p.Over && !r.State.over(), p.Tool != "" && r.Tool != p.Tool,
		p.Hash != "" && r.callHash() != p.Hash, p.TraceID != "" && r.TraceID != p.TraceID:
		return false
	}
	return p.Find == "" || named.In(r.Tool, r.Title, r.Requester, string(r.Args))
}

// awaits reports whether an approval waits for the decision of a principal, or is not
// pending and the principal may decide.
func (s *Service) awaits(who *protocol.Principal, r *Record) bool {
	if s.mayDecide(who, r) != nil {
		return false
	}
	_, err := r.seat(s.opts.People, who)
	return r.State != Pending || err == nil
}

// List returns the approvals that the caller may see.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	named := listing.Find(p.Find)
	visible := func(yield func(*Record) bool) {
		for _, r := range s.opts.Approvals.All() {
			if !p.matches(r, named) || !s.visible(call.Principal, r) || p.Mine && !s.awaits(call.Principal, r) {
				continue
			}
			if !yield(r) {
				return
			}
		}
	}
	found, err := order.Select(visible, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Approvals: make([]Approval, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, r := range found.Items {
		result.Approvals[i] = s.view(r)
	}
	return result, nil
}
