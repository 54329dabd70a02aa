package approval

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
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
	State  State  `json:"state,omitempty" enum:"pending,approved,used,denied,expired,withdrawn" doc:"only those in this state"`
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many at most"`
	Cursor string `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// ListResult is the result of approval.list.
type ListResult struct {
	Approvals  []Approval `json:"approvals" doc:"the approvals of this page, the newest first; empty if none fits"`
	Total      int        `json:"total" doc:"how many there are on all pages"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"where the next page begins; absent on the last"`
}

// List shows the approvals that the caller may see.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	var visible []*Record
	for _, r := range s.opts.Approvals.All() {
		if (p.State == "" || r.State == p.State) && s.visible(call.Principal, r) {
			visible = append(visible, r)
		}
	}
	slices.SortFunc(visible, func(a, b *Record) int { return strings.Compare(b.ID, a.ID) })
	result := ListResult{Approvals: []Approval{}, Total: len(visible)}
	if p.Limit == 0 {
		p.Limit = 100
	}
	for _, r := range visible {
		if p.Cursor != "" && r.ID >= p.Cursor {
			continue
		}
		if len(result.Approvals) == p.Limit {
			result.NextCursor = result.Approvals[p.Limit-1].ID
			break
		}
		result.Approvals = append(result.Approvals, r.view())
	}
	return result, nil
}
