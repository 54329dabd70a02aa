// Package tasks shows dispatches as tasks.
package tasks

import (
	"context"
	"iter"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/protocol"
)

// Of shows the dispatches of an engine as tasks.
func Of(engine *dispatch.Engine) task.Source { return source{engine} }

type source struct{ engine *dispatch.Engine }

// Get implements [task.Source].
func (g source) Get(id protocol.TaskID) (*task.Task, bool) {
	v, ok := g.engine.Get(id)
	if !ok || v.Rollout != "" { // a wave is no task of its own
		return nil, false
	}
	return taskOf(v), true
}

// Counts implements [task.Source].
func (g source) Counts(id protocol.TaskID) map[string]int {
	counts, _ := g.engine.Counts(id)
	return countsOf(counts)
}

// All implements [task.Source].
func (g source) All() iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for v := range g.engine.All() {
			if v.Rollout == "" && !yield(taskOf(v)) {
				return
			}
		}
	}
}

// Cancel implements [task.Source].
func (g source) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	return g.engine.Cancel(ctx, id, reason)
}

func taskOf(v dispatch.View) *task.Task {
	t := &task.Task{
		ID: v.ID, Command: "group.dispatch", State: task.State(v.Outcome), Principal: v.Principal, Space: v.Home, TraceID: v.TraceID, Owner: v.Owner,
		Started: time.UnixMilli(v.StartedAt).UTC(),
		Group: &task.Group{
			Cap: v.Cap, Group: v.Group, Capability: v.Capability,
			Completion: string(v.Completion.Policy), N: v.Completion.N, Deadline: v.Deadline,
		},
	}
	if v.Caller != nil {
		t.Kind = v.Caller.Kind
	}
	if v.End != nil {
		ended := time.UnixMilli(v.End.At).UTC()
		t.Ended = &ended
		if v.Outcome == dispatch.Called {
			t.Error = &task.Failure{Code: protocol.Cancelled, Message: v.End.Reason, Details: map[string]any{}}
		}
	}
	if v.Counts != nil {
		t.Group.Counts = countsOf(v.Counts)
	}
	if v.Members != nil {
		t.Group.Params = v.Params
	}
	for _, m := range v.Members {
		t.Group.Members = append(t.Group.Members, task.Member{
			Skill: m.Skill, Role: m.Role, Agent: m.Agent, State: string(m.State), At: m.At, AskedAt: m.AskedAt, Attempts: m.Tries, Progress: m.Told, Late: m.Late,
			Data: m.Data, Dropped: m.Dropped, Error: failureOf(m.Error),
		})
	}
	return t
}

func countsOf(states map[dispatch.State]int) map[string]int {
	counts := make(map[string]int, len(states))
	for state, n := range states {
		counts[string(state)] = n
	}
	return counts
}

func failureOf(f *dispatch.Failure) *task.Failure {
	if f == nil {
		return nil
	}
	details := f.Details
	if details == nil {
		details = map[string]any{}
	}
	return &task.Failure{Code: f.Code, Message: f.Message, Details: details}
}
