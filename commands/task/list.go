package task

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
)

var list = commands.Spec{
	Name:    "task.list",
	Summary: "List tasks, the latest first.",
	Effect:  commands.Read,
	Action:  "task:list",
	Example: `{"state":"running"}`,
}

// ListParams choose tasks.
type ListParams struct {
	State  State  `json:"state,omitempty" enum:"pending,running,succeeded,complete,partial,failed,cancelled" doc:"only tasks in this state"`
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"how many at most"`
	Cursor string `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// ListResult is one page of tasks.
type ListResult struct {
	Tasks      []Task `json:"tasks" doc:"the tasks, without their results"`
	Total      int    `json:"total" doc:"how many there are on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"where the next page begins; absent on the last"`
}

// List shows the caller's tasks. Results are left out: task.get has them.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	var visible []*Task
	take := func(t *Task) {
		if t.visibleTo(call.Principal) && (p.State == "" || t.State == p.State) {
			visible = append(visible, t)
		}
	}
	for _, t := range s.Tasks.All() {
		take(t)
	}
	if s.Groups != nil {
		for t := range s.Groups.All() {
			take(t)
		}
	}
	slices.SortFunc(visible, func(a, b *Task) int { return strings.Compare(string(b.ID), string(a.ID)) })
	result := ListResult{Tasks: []Task{}, Total: len(visible)}
	if p.Limit == 0 {
		p.Limit = 100
	}
	for _, t := range visible {
		if p.Cursor != "" && string(t.ID) >= p.Cursor {
			continue
		}
		if len(result.Tasks) == p.Limit {
			result.NextCursor = string(result.Tasks[p.Limit-1].ID)
			break
		}
		shown := s.view(t)
		shown.Result = nil
		result.Tasks = append(result.Tasks, shown)
	}
	return result, nil
}
