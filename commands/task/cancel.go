package task

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var cancel = commands.Spec{
	Name:    "task.cancel",
	Summary: "Cancel a task and wait until it has ended.",
	Effect:  commands.Write,
	Action:  "task:cancel",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState},
	Example: `{"task_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","reason":"no longer needed"}`,
}

// CancelParams name a task and say why it is cancelled.
type CancelParams struct {
	TaskID protocol.TaskID `json:"task_id" doc:"id of the task"`
	Reason string          `json:"reason,omitempty" len:"1-256" text:"lines" doc:"why, for whoever asks later"`
}

// Target is the task.
func (p CancelParams) Target() commands.Resource {
	return commands.Resource{Type: "task", ID: string(p.TaskID)}
}

// Cancel ends a task with 4013. Its work so far stays done: a task
// that ends by itself in the same moment keeps its own end.
func (s *Service) Cancel(ctx context.Context, call *commands.Call, p CancelParams) (Task, error) {
	t, err := s.lookup(call.Principal, p.TaskID)
	if err != nil {
		return Task{}, err
	}
	reason := p.Reason
	if reason == "" {
		reason = "cancelled by its owner"
	}
	if keeper := s.keeper(p.TaskID); keeper != nil {
		if err := call.Park(ctx, func(ctx context.Context) error { return keeper.Cancel(ctx, p.TaskID, reason) }); err != nil {
			return Task{}, err
		}
		t, err := s.lookup(call.Principal, p.TaskID)
		if err != nil {
			return Task{}, err
		}
		return *t, nil
	}
	r := s.find(p.TaskID)
	if r == nil {
		return Task{}, protocol.Errorf(protocol.InvalidState, "the task has already %s", t.State).
			With("task_id", p.TaskID).With("state", t.State)
	}
	r.cancel(protocol.Errorf(protocol.Cancelled, "%s", reason))
	if err := call.Park(ctx, r.wait); err != nil {
		return Task{}, err
	}
	if t, err = s.lookup(call.Principal, p.TaskID); err != nil {
		return Task{}, err
	}
	return s.view(t), nil
}
