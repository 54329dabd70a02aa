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

// CancelParams name a task and the reason of its cancellation.
type CancelParams struct {
	TaskID protocol.TaskID `json:"task_id" doc:"id of the task"`
	Reason string          `json:"reason,omitempty" len:"1-256" text:"lines" doc:"reason, for later questions"`
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
	if t.hasSuccessor() && !t.State.over() {
		return Task{}, protocol.Errorf(protocol.InvalidState, "its work goes on as %s: cancel that", t.Dialogue.Successor).
			With("task_id", t.ID).With("goes_on_as", t.Dialogue.Successor)
	}
	if s.Elsewhere != nil && !t.State.over() && s.find(p.TaskID) == nil {
		if cancelled, done, err := s.cancelElsewhere(ctx, call, t, reason); done {
			return cancelled, err
		}
	}
	if err := call.Park(ctx, func(ctx context.Context) error {
		t, err = s.CancelHere(ctx, p.TaskID, reason)
		return err
	}); err != nil {
		return Task{}, err
	}
	return *t.shown(), nil
}

// cancelElsewhere has a task cancelled where it runs, if that is elsewhere.
func (s *Service) cancelElsewhere(ctx context.Context, call *commands.Call, t *Task, reason string) (cancelled Task, done bool, err error) {
	carried, done := s.Elsewhere(t)
	if !done {
		return Task{}, false, nil
	}
	err = call.Park(ctx, func(ctx context.Context) error {
		cancelled, err = carried(ctx, reason)
		return err
	})
	return cancelled, true, err
}

// CancelHere cancels a task that this process carries out, and returns it when its end is
// stored. The right to cancel it is checked before.
func (s *Service) CancelHere(ctx context.Context, id protocol.TaskID, reason string) (*Task, error) {
	if keeper := s.keeper(id); keeper != nil {
		if err := keeper.Cancel(ctx, id, reason); err != nil {
			return nil, err
		}
		return s.known(id)
	}
	r := s.find(id)
	if r == nil {
		t, err := s.known(id)
		if err == nil {
			err = protocol.Errorf(protocol.InvalidState, "the task has already %s", t.State).With("task_id", id).With("state", t.State)
		}
		return nil, err
	}
	r.cancel(protocol.Errorf(protocol.Cancelled, "%s", reason))
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	return r.now(), nil
}
