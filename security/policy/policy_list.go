package policy

import (
	"context"

	"github.com/aibridge/aibridge/commands"
)

var policyList = commands.Spec{
	Name:    "policy.list",
	Summary: "List the texts of policies in force and on trial, and where they come from.",
	Effect:  commands.Read,
	Action:  "policy:list",
	Example: `{"from":"stored"}`,
}

// ListParams choose texts.
type ListParams struct {
	From   Kind   `json:"from,omitempty" enum:"shipped,file,stored,trial" doc:"only those from there"`
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number at most"`
	Cursor string `json:"cursor,omitempty" len:"1-512" doc:"next_cursor of the page before"`
}

// ListResult is one page of texts.
type ListResult struct {
	Policies   []View `json:"policies" doc:"the texts of this page, those of the bridge first; empty if none fits"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// List lists texts, those that come with the bridge first.
func (s *Service) List(_ context.Context, _ *commands.Call, p ListParams) (ListResult, error) {
	if p.Limit == 0 {
		p.Limit = 100
	}
	result := ListResult{Policies: []View{}}
	for _, v := range s.Engine.views() {
		if p.From != "" && v.From != p.From {
			continue
		}
		result.Total++
		switch {
		case v.key() <= p.Cursor:
		case len(result.Policies) < p.Limit:
			result.Policies = append(result.Policies, v)
		default:
			result.NextCursor = result.Policies[p.Limit-1].key()
		}
	}
	return result, nil
}
