package parked

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Job is one resumption of a task.
type Job struct {
	Principal *protocol.Principal // caller of the task, with its current rights

	service  *Service
	record   *Record
	revision uint64
	mine     bool            // the record of this job is stored: Running, or a later state
	told     bool            // task.running is published
	state    json.RawMessage // the stored state, opened
}

// Task is the id of the task.
func (j *Job) Task() protocol.TaskID { return j.record.ID }

// TraceID is the trace id of the request that began the task.
func (j *Job) TraceID() string { return j.record.TraceID }

// Approval is the id of the approval that the task waited for.
func (j *Job) Approval() string { return j.record.Approval }

// UsedAt is the time at which an approval was used for its call, in Unix ms; 0 if it
// was not.
func (j *Job) UsedAt(approval string) int64 { return j.service.opts.Approvals.UsedAt(approval) }

// Edited is the change that deciders made to the call of an approval, nil for none.
func (j *Job) Edited(approval string) *approval.Edited {
	return j.service.opts.Approvals.Edited(approval)
}

// youth is the time after a start within which devices may not have reconnected yet.
const youth = 30 * time.Second

// Young reports whether the task is one of an earlier process and this one has
// just begun.
func (j *Job) Young() bool {
	return j.record.Started <= j.service.beganAt && time.Since(j.service.began) < youth
}

// Tell publishes an event of the task.
func (j *Job) Tell(event string, data any) { j.service.publish(j.record, event, data) }

// Start begins the call that waited. It stores nothing: the use of the call's approval
// takes the task up. If there is no room for the outcome of the call, it returns an
// error that [TooMuch] reports.
func (j *Job) Start() error {
	if err := j.service.fits(j.record.Kept, j.service.spare()); err != nil {
		return err
	}
	j.tellRunning()
	return nil
}

// tellRunning publishes task.running, once.
func (j *Job) tellRunning() {
	if !j.told {
		j.told = true
		j.Tell("task.running", struct{}{})
	}
}

// Keep stores the state of the task. With acts, a call of a tool follows, and the state
// must leave room for its outcome. If the state is too long, Keep stores nothing and
// returns an error that [TooMuch] reports.
func (j *Job) Keep(ctx context.Context, state any, acts bool) error {
	sealed, err := j.service.seal(j.record.ID, state)
	if err != nil {
		return err
	}
	more := 0
	if acts {
		more = j.service.spare()
	}
	if err := j.service.fits(sealed, more); err != nil {
		return err
	}
	next := *j.record
	next.Kept = sealed
	return j.store(ctx, &next)
}

// Park has the task wait for another approval, or again for the same one. Its
// [Continue] then returns [ErrParked].
func (j *Job) Park(ctx context.Context, q *tools.Question, state any) error {
	s := j.service
	asked, err := s.question(j.record, q, state)
	if err != nil {
		return err
	}
	defer asked.release()
	next := asked.record
	if err := j.store(ctx, next); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	if err := s.opts.Approvals.Open(ctx, asked.draft); err != nil {
		s.opts.Log.Warn("the question that a task waits for is not stored yet", "task", next.ID, "error", err)
		s.later(next.ID)
		return nil
	}
	s.publish(next, "task.waiting", next.Event())
	s.enqueue(next.ID) // it may be settled already
	return nil
}

// Read decodes the stored state.
func (j *Job) Read(into any) error {
	if err := records.Decode(j.state, into); err != nil {
		return protocol.Wrap(protocol.Internal, err, "the stored state of the task cannot be read any more")
	}
	return nil
}

// take takes the task up, unless this job has done so.
func (j *Job) take(ctx context.Context) error {
	if j.mine {
		return nil
	}
	return j.store(ctx, j.record)
}

// store replaces the record of the task. The first replacement takes the task up: a job
// that loses against another one gets errNotMine. If another bridge, which may have
// died since, has cancelled the task, store ends it as cancelled.
func (j *Job) store(ctx context.Context, next *Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	if why := j.service.opts.Approvals.CancelledFor(j.record.Approval); why != "" {
		if err := raced(j.service.finish(ctx, j.record, j.revision, protocol.Errorf(protocol.Cancelled, "%s", why))); err != nil {
			return err
		}
		return errNotMine
	}
	revision, err := j.service.opts.Tasks.Update(ctx, string(next.ID), next, j.revision)
	switch {
	case err == nil, revision != 0: // with a revision it is stored, although the bridge does not see it yet
		j.record, j.revision = next, revision
		if next.State == Running {
			j.tellRunning()
		}
		j.mine = true
		return nil
	case raced(err) == nil && !j.mine:
		j.service.later(next.ID) // the other bridge may have died since, and its record is not seen here yet
		return errNotMine
	case raced(err) == nil:
		return errNotMine
	}
	return err
}
