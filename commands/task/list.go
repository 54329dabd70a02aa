package task

import (
	"context"
	"iter"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
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
	State     State            `json:"state,omitempty" enum:"pending,waiting,running,paused,aborted,succeeded,complete,partial,failed,cancelled" doc:"only tasks in this state"`
	Running   bool             `json:"unfinished,omitempty" doc:"only tasks that have not ended"`
	Command   string           `json:"command,omitempty" len:"1-128" doc:"only tasks that run this command"`
	Principal string           `json:"principal,omitempty" len:"1-256" doc:"only tasks that this party started"`
	Cap       protocol.CapID   `json:"cap_id,omitempty" doc:"only tasks of groups of this Cap"`
	Group     protocol.GroupID `json:"group_id,omitempty" doc:"only tasks of groups of this id"`
	Find      string           `json:"find,omitempty" len:"1-128" doc:"only tasks with this text in their id, command, Cap, group or capability, whatever its case"`
	Sort      string           `json:"sort,omitempty" enum:"id,-id,command,-command,state,-state,principal,-principal,ended_at,-ended_at" doc:"field to sort by, the highest first behind a minus; the latest first if absent"`
	listing.Page
}

// ListResult is one page of tasks.
type ListResult struct {
	Tasks      []Task `json:"tasks" doc:"the tasks, without their results"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// order holds the columns that lists of tasks can be sorted by. Ids rise with time.
var order = listing.Order[*Task]{
	ID: func(t *Task) string { return string(t.ID) },
	Keys: map[string]func(*Task) listing.Key{
		"command":   func(t *Task) listing.Key { return listing.Text(t.Command) },
		"state":     func(t *Task) listing.Key { return listing.Text(string(t.State)) },
		"principal": func(t *Task) listing.Key { return listing.Text(t.Principal) },
		"ended_at": func(t *Task) listing.Key {
			if t.Ended == nil {
				return listing.Number(0)
			}
			return listing.Number(t.Ended.UnixMilli())
		},
	},
	Default: "-id",
}

// matches reports whether a task is one of those that the params choose.
func (p *ListParams) matches(t *Task, named listing.Finder) bool {
	switch {
	case p.State != "" && t.State != p.State, p.Running && t.State.over(),
		p.Command != "" && t.Command != p.Command, p.Principal != "" && t.Principal != p.Principal,
		p.Cap != "" && (t.Group == nil || t.Group.Cap != p.Cap), p.Group != "" && (t.Group == nil || t.Group.Group != p.Group):
		return false
	case t.Group != nil:
		return named.In(string(t.ID), t.Command, string(t.Group.Cap), string(t.Group.Group), string(t.Group.Capability))
	}
	return named.In(string(t.ID), t.Command)
}

// List shows the caller's tasks. Results are left out: task.get has them.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	named := listing.Find(p.Find)
	visible := func(yield func(*Task) bool) {
		for t := range s.all() {
			if !t.visibleTo(call.Principal) {
				continue
			}
			if t.hasSuccessor() {
				t = &s.standing(t).Task
			}
			if p.matches(t, named) && !yield(t) {
				return
			}
		}
	}
	found, err := order.Select(visible, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Tasks: make([]Task, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, t := range found.Items {
		result.Tasks[i] = s.view(t)
		result.Tasks[i].Result = nil
		if g := t.Group; g != nil && g.Counts == nil {
			counted := *g
			counted.Counts = s.counts(t.ID)
			result.Tasks[i].Group = &counted
		}
	}
	return result, nil
}

// counts are the numbers of members of a group task by state.
func (s *Service) counts(id protocol.TaskID) map[string]int {
	if keeper := s.keeper(id); keeper != nil {
		return keeper.Counts(id)
	}
	return nil
}

// all yields every task, those of groups too.
func (s *Service) all() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for _, t := range s.Tasks.All() {
			if !yield(t) {
				return
			}
		}
		for _, other := range s.Others {
			for t := range other.All() {
				if !yield(t) {
					return
				}
			}
		}
	}
}
