package parked

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// Cancel ends a task with 4013 and returns when its end is stored. A decision and a
// cancellation at the same moment have one outcome: the use of the approval or its
// withdrawal, whichever is stored first.
func (s *Service) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	cancelled := protocol.Errorf(protocol.Cancelled, "%s", reason)
	tried := false
	for ctx.Err() == nil {
		r, revision, ok := s.opts.Tasks.Get(string(id))
		switch {
		case !ok:
			return protocol.Errorf(protocol.NotFound, "no task %q", id).With("task_id", id)
		case r.State == Cancelled && tried: // by a bridge that has read the reason in the approval
			return nil
		case r.State.Over():
			return protocol.Errorf(protocol.InvalidState, "the task has already %s", r.State).With("task_id", id).With("state", string(r.State))
		}
		if t := s.turnOf(id); t != nil {
			if err := t.stop(ctx, cancelled); err != nil {
				return err
			}
			if r, _, ok := s.opts.Tasks.Get(string(id)); ok && r.State == Cancelled {
				return nil
			}
			continue
		}
		t, _ := s.enter(ctx, id)
		if t == nil {
			continue
		}
		tried = true
		err := s.cancel(ctx, r, revision, cancelled)
		s.giveBack(id, t)
		if err == nil || raced(err) != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// cancel ends a task that has no turn here. It withdraws the approval first: every
// bridge uses the approval before it resumes the task, so none can resume it from then
// on. A bridge that takes the task up before its end is stored ends it in the same way.
func (s *Service) cancel(ctx context.Context, r *Record, revision uint64, why *protocol.Error) error {
	if err := s.opts.Approvals.Cancel(ctx, r.Approval, why.Message); err != nil {
		return err
	}
	return s.finish(ctx, r, revision, why)
}

// finish stores and publishes the end of a task without a turn.
func (s *Service) finish(ctx context.Context, r *Record, revision uint64, why error) error {
	ended := s.over(r, nil, why)
	if _, err := s.opts.Tasks.Update(ctx, string(r.ID), ended, revision); err != nil {
		return err
	}
	s.publishEnd(ended, nil)
	return nil
}

// CancelSession ends the tasks of an owner that belong to a command and a conversation.
func (s *Service) CancelSession(ctx context.Context, owner protocol.Party, command, session, reason string) error {
	var failed error
	for _, r := range s.opts.Tasks.All() {
		if r.State.Over() || r.Command != command || r.Session != session || r.Grant.Party() != owner {
			continue
		}
		if err := s.Cancel(ctx, r.ID, reason); err != nil && protocol.CodeOf(err) != protocol.InvalidState {
			failed = err
		}
	}
	return failed
}

// stop ends a turn, and returns when it has ended.
func (t *turn) stop(ctx context.Context, why error) error {
	t.cancel(why)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// turnOf is the current turn of a task, nil if it has none.
func (s *Service) turnOf(id protocol.TaskID) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[id]
}
