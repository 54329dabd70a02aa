// Package tasks shows rollouts as tasks.
package tasks

import (
	"context"
	"iter"
	"time"

	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/protocol"
)

// Of shows the rollouts of an engine as tasks.
func Of(engine *rollout.Engine) task.Source { return source{engine} }

type source struct{ engine *rollout.Engine }

// Get implements [task.Source].
func (g source) Get(id protocol.TaskID) (*task.Task, bool) {
	v, ok := g.engine.Get(id)
	if !ok {
		return nil, false
	}
	t := taskOf(v.Rollout)
	t.Group.Params, t.Group.Counts, t.Group.Rollout.Rate = v.Params, v.Counts.Map(), v.Rate
	if !v.Opens.IsZero() {
		t.Group.Rollout.Opens = &v.Opens
	}
	return t, true
}

// Counts implements [task.Source].
func (g source) Counts(id protocol.TaskID) map[string]int {
	counts, _ := g.engine.Counts(id)
	return counts.Map()
}

// All implements [task.Source].
func (g source) All() iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for r := range g.engine.All() {
			if !yield(taskOf(r)) {
				return
			}
		}
	}
}

// Cancel implements [task.Source].
func (g source) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	return g.engine.Cancel(ctx, id, reason)
}

func taskOf(r *rollout.Rollout) *task.Task {
	until := r.Plan.ValidUntil.UTC()
	t := &task.Task{
		ID: r.ID, Command: "group.dispatch", State: task.State(r.Status), Principal: r.Caller.ID, Kind: r.Caller.Kind, Space: r.Caller.Space, TraceID: r.TraceID,
		Started: time.UnixMilli(r.StartedAt).UTC(), Owner: r.Owner,
		Group: &task.Group{
			Cap: r.Cap, Group: r.Group, Capability: r.Capability, Completion: "all", Deadline: until.UnixMilli(),
			Rollout: &task.Rollout{Selector: r.Selector, Continuous: r.Plan.Continuous, Reason: r.Reason, ValidUntil: until, Approval: r.Approval},
		},
	}
	if r.EndedAt != 0 {
		ended := time.UnixMilli(r.EndedAt).UTC()
		t.Ended = &ended
	}
	if r.Status == rollout.Called {
		t.Error = &task.Failure{Code: protocol.Cancelled, Message: r.Reason, Details: map[string]any{}}
	}
	return t
}
