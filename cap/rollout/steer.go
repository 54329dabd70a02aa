package rollout

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// change replaces the record of a rollout by compare-and-set.
func (e *Engine) change(ctx context.Context, id protocol.TaskID, edit func(r *Rollout) error) (*Rollout, error) {
	changed, _, err := records.Change(ctx, e.opts.Rollouts, string(id), func(old *Rollout, _ uint64) (*Rollout, error) {
		if old == nil {
			return nil, protocol.Errorf(protocol.NotFound, "no task %q", id).With("task_id", string(id))
		}
		r := *old
		if err := edit(&r); err != nil {
			return nil, err
		}
		return &r, nil
	})
	return changed, err
}

// become sets the status of a record.
func (e *Engine) become(r *Rollout, s Status, reason string) {
	r.Status, r.Reason, r.Since = s, reason, e.opts.Clock.Now().UnixMilli()
}

func wrongState(r *Rollout, what string) error {
	return protocol.Errorf(protocol.InvalidState, "the rollout is %s; %s", r.Status, what).With("task_id", string(r.ID)).With("state", string(r.Status))
}

// Pause asks no more members until the rollout is resumed. Members asked already may
// finish.
func (e *Engine) Pause(ctx context.Context, id protocol.TaskID, reason string) (*Rollout, error) {
	return e.change(ctx, id, func(r *Rollout) error {
		if r.Status != Scheduled && r.Status != Running && r.Status != Waiting {
			return wrongState(r, "only one that goes on can be paused")
		}
		e.become(r, Paused, reason)
		return nil
	})
}

// Resume goes on with a rollout that is paused, or has stopped by itself: failures
// until now no longer stop it, and a failed canary is passed.
func (e *Engine) Resume(ctx context.Context, id protocol.TaskID) (*Rollout, error) {
	counts, _ := e.Counts(id)
	return e.change(ctx, id, func(r *Rollout) error {
		switch r.Status {
		case Paused:
		case Aborted:
			r.Forgiven = counts
			r.passSuccess()
		default:
			return wrongState(r, "only one that is paused or aborted can be resumed")
		}
		e.become(r, e.going(r), "")
		return nil
	})
}

// passSuccess passes a canary that had to succeed. One that waits for an approval is
// passed by that alone.
func (r *Rollout) passSuccess() {
	if c := r.Plan.Rollout.Canary; c != nil && c.Wait == "success" {
		r.Passed = true
	}
}

// going is the status of a rollout that is to go on.
func (e *Engine) going(r *Rollout) Status {
	if !e.due(r.Plan.ScheduleAt) {
		return Scheduled
	}
	return Running
}

// Retry queues members again that ended in one of some states, and goes on. A
// rollout that has ended begins again, until a time if it is not zero.
func (e *Engine) Retry(ctx context.Context, id protocol.TaskID, states []State, until time.Time) (*Rollout, error) {
	r, err := e.change(ctx, id, func(r *Rollout) error {
		now := e.opts.Clock.Now()
		if r.Status == Called {
			return wrongState(r, "a cancelled one does not go on")
		}
		if until.After(now.Add(maxValidity)) {
			return protocol.InvalidParam("valid_until", "must be within 90 days")
		}
		if !until.IsZero() {
			r.Plan.ValidUntil = until
		}
		if !r.Plan.ValidUntil.After(now) {
			if until.IsZero() {
				return wrongState(r, "its valid_until has passed: a new one is needed")
			}
			return protocol.InvalidParam("valid_until", "must be in the future")
		}
		if r.Round > 0 && !e.roundDone(r) {
			return wrongState(r, "an earlier retry is still being prepared")
		}
		r.Round, r.Again = r.Round+1, states
		r.Forgiven = Counts{}
		if r.ended() {
			r.Owner, r.EndedAt = e.opts.Owner, 0
		}
		e.become(r, e.going(r), "")
		return nil
	})
	if err == nil && r.Owner == e.opts.Owner {
		e.launch(id)
	}
	return r, err
}

// roundDone reports whether all parts know of the latest retry.
func (e *Engine) roundDone(r *Rollout) bool {
	for _, p := range e.parts(r) {
		if p.Round < r.Round {
			return false
		}
	}
	return true
}

// Cancel ends a rollout, tells members at work to stop, and returns when that is
// stored; 3006 if it has ended.
func (e *Engine) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	_, err := e.change(ctx, id, func(r *Rollout) error {
		if r.Status.over() {
			return protocol.Errorf(protocol.InvalidState, "the task has already ended").With("task_id", string(id))
		}
		e.become(r, Called, reason)
		return nil
	})
	if r := e.find(id); err == nil && r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
