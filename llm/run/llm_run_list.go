package run

import (
	"cmp"
	"context"

	"github.com/aibridge/aibridge/commands"
)

var list = commands.Spec{
	Name:    "llm.run.list",
	Summary: "List runs, the latest first.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Example: `{"phase":"WaitingUser"}`,
}

// ListParams choose runs.
type ListParams struct {
	Phase  Phase  `json:"phase,omitempty" enum:"Running,WaitingUser,Completed,Failed" doc:"only runs in this phase"`
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many at most"`
	Cursor string `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// ListResult is one page of runs.
type ListResult struct {
	Runs       []Result `json:"runs" doc:"the runs, without what they said last"`
	Total      int      `json:"total" doc:"how many there are on all pages"`
	NextCursor string   `json:"next_cursor,omitempty" doc:"where the next page begins; absent on the last"`
}

// List shows the caller's runs, and to who manages a space all of it.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	var all []*Record
	for id, r := range s.opts.Runs.All() {
		if l := s.find(id); l != nil {
			r = l.now()
		}
		if r.visibleTo(call.Principal) && (p.Phase == "" || p.Phase == r.Phase) {
			all = append(all, r)
		}
	}
	sortedByAge(all)
	result := ListResult{Runs: []Result{}, Total: len(all)}
	for _, r := range all {
		if p.Cursor != "" && r.ID >= p.Cursor {
			continue
		}
		if len(result.Runs) == cmp.Or(p.Limit, 100) {
			result.NextCursor = result.Runs[len(result.Runs)-1].ID
			break
		}
		shown := *r
		shown.Last = nil
		result.Runs = append(result.Runs, s.result(&shown))
	}
	return result, nil
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(importPackage, s.Import),
		commands.New(packages, s.Packages),
		commands.New(start, s.Start),
		commands.New(continueRun, s.Continue),
		commands.New(status, s.Status),
		commands.New(turns, s.Turns),
		commands.New(cancel, s.Cancel),
		commands.New(list, s.List),
	}
}
