// Package tasks is the [task.Source] of parked calls.
package tasks

import (
	"context"
	"iter"
	"time"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// Of returns the source of a service's tasks.
func Of(s *parked.Service) task.Source { return source{s} }

type source struct{ parked *parked.Service }

// Get implements [task.Source].
func (s source) Get(id protocol.TaskID) (*task.Task, bool) {
	v, ok := s.parked.Get(id)
	if !ok {
		return nil, false
	}
	return taskOf(v), true
}

// All implements [task.Source].
func (s source) All() iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for v := range s.parked.All() {
			if !yield(taskOf(v)) {
				return
			}
		}
	}
}

// Counts implements [task.Source]: none of the tasks is of a group.
func (s source) Counts(protocol.TaskID) map[string]int { return nil }

// Cancel implements [task.Source].
func (s source) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	return s.parked.Cancel(ctx, id, reason)
}

func taskOf(v parked.View) *task.Task {
	party := v.Grant.Party()
	t := &task.Task{
		ID: v.ID, Command: v.Command, State: task.State(v.State), Principal: party.ID, Kind: party.Kind, Space: party.Space, TraceID: v.TraceID,
		Started: time.UnixMilli(v.Started).UTC(), Result: v.Result,
	}
	if v.State == parked.Waiting {
		t.Waits = &task.Waits{Approval: v.Approval, Tool: v.Tool, Expires: v.Expires}
	}
	if v.Ended != 0 {
		ended := time.UnixMilli(v.Ended).UTC()
		t.Ended = &ended
	}
	if f := v.Failure; f != nil {
		t.Error = &task.Failure{Code: f.Code, Message: f.Message, Details: f.Details}
		if t.Error.Details == nil {
			t.Error.Details = map[string]any{}
		}
	}
	return t
}
