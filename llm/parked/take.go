package parked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// pause is the time between two attempts to take up a task or to store its end.
const pause = time.Second

// later enqueues a task again after a pause. The pause grows with the failed attempts,
// see goesOnAgain.
func (s *Service) later(id protocol.TaskID) {
	s.mu.Lock()
	wait := min(pause<<s.inVain[id], longestPause)
	s.mu.Unlock()
	time.AfterFunc(wait, func() { s.enqueue(id) })
}

// takeUp resumes a task whose approval is settled, or that an earlier process was
// running. Only the bridge that replaces the record resumes it.
func (s *Service) takeUp(ctx context.Context, id protocol.TaskID) {
	t, ctx := s.enter(ctx, id)
	if t == nil {
		return // it has a turn already, which enqueues it again at its end
	}
	err := s.goOn(ctx, id)
	s.giveBack(id, t)
	if err != nil && s.ctx.Err() == nil {
		s.opts.Log.Warn("a task could not be taken up, and will be later", "task", id, "error", err)
		s.later(id)
	}
}

// enter begins a turn of a task. It returns nil if the task has one already, which then
// enqueues the task again at its end.
func (s *Service) enter(ctx context.Context, id protocol.TaskID) (*turn, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.busy[id]; t != nil {
		t.again = true
		return nil, nil
	}
	t := &turn{done: make(chan struct{})}
	ctx, t.cancel = context.WithCancelCause(ctx)
	s.busy[id] = t
	return t, ctx
}

// giveBack ends a turn. If the task was enqueued meanwhile, it enqueues it again.
func (s *Service) giveBack(id protocol.TaskID, t *turn) {
	s.mu.Lock()
	delete(s.busy, id)
	t.cancel(nil)
	close(t.done)
	again := t.again
	s.mu.Unlock()
	if again {
		s.enqueue(id)
	}
}

// goOn resumes a task if its approval is settled, or does what else its state requires.
func (s *Service) goOn(ctx context.Context, id protocol.TaskID) error {
	r, revision, ok := s.opts.Tasks.Get(string(id))
	if !ok || r.State.Over() {
		return nil
	}
	if s.isDisowned(id) {
		return s.remove(ctx, r, revision)
	}
	known, settled := s.opts.Approvals.Known(r.Approval)
	if r.State == Waiting && !known { // the bridge stopped before it had opened the approval, or the approval is lost
		return s.askAgain(ctx, r, revision)
	}
	if r.State == Waiting && !settled {
		return nil
	}
	job := &Job{service: s, record: r.taken(), revision: revision}
	if s.underWay(r) || s.opts.Approvals.CancelledFor(r.Approval) != "" { // it may have nothing left to note before it goes on
		if err := job.take(ctx); err != nil {
			return ifMine(err)
		}
	}
	result, err := job.run(ctx)
	if protocol.CodeOf(err) == protocol.StoreUnavailable {
		if err := job.take(ctx); err != nil {
			return ifMine(err)
		}
	}
	return s.went(ctx, job, result, err)
}

// underWay reports whether a job has taken up a task, even if its bridge died since:
// the task is running, or its approval was used for the call.
func (s *Service) underWay(r *Record) bool {
	return r.State == Running || r.State == Waiting && s.opts.Approvals.UsedAt(r.Approval) != 0
}

// ifMine returns an error, or nil for errNotMine.
func ifMine(err error) error {
	if errors.Is(err, errNotMine) {
		return nil
	}
	return err
}

// went handles the outcome of a job. It returns an error if the task is to be resumed
// later.
func (s *Service) went(ctx context.Context, job *Job, result []byte, err error) error {
	id := job.record.ID
	switch {
	case errors.Is(err, ErrParked), errors.Is(err, errNotMine):
	case err != nil && s.ctx.Err() != nil: // the next bridge goes on
	case protocol.CodeOf(err) == protocol.StoreUnavailable && s.goesOnAgain(id): // and this one when something can be stored again
		return err
	case protocol.CodeOf(err) == protocol.StoreUnavailable:
		s.end(ctx, job, nil, tooOften(err))
	default:
		s.end(ctx, job, result, err)
	}
	s.mu.Lock()
	delete(s.inVain, id)
	s.mu.Unlock()
	return nil
}

// The number of attempts to resume a task, in one process, whose record can be stored
// while another write fails each time. The pauses between them grow to longestPause, so
// that the attempts take some minutes.
const (
	mostInVain   = 10
	longestPause = time.Minute
)

// goesOnAgain counts a failed attempt of a task, and reports whether another one is
// allowed.
func (s *Service) goesOnAgain(id protocol.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inVain[id]++
	return s.inVain[id] < mostInVain
}

// tooOften is the error of a task after its last failed attempt.
func tooOften(last error) error {
	return protocol.Errorf(protocol.StoreUnavailable, "the task was gone on with %d times, and each time something could not be stored; the last time: %s", mostInVain, protocol.AsError(last).Message).
		With("reason", "attempts").With("attempts", mostInVain)
}

// askAgain opens the approval of a task again, for one that is not known. A draft that
// cannot be read any more ends the task.
func (s *Service) askAgain(ctx context.Context, r *Record, revision uint64) error {
	plain, err := s.open(r.ID, r.Asks)
	question := new(approval.Record)
	if err != nil || len(plain) == 0 || json.Unmarshal(plain, question) != nil {
		return s.lose(ctx, r, revision)
	}
	if err := s.opts.Approvals.Open(ctx, question); err != nil {
		return err
	}
	s.publish(r, "task.waiting", r.Event())
	return nil
}

// lose ends a task whose approval and its draft are lost.
func (s *Service) lose(ctx context.Context, r *Record, revision uint64) error {
	return raced(s.finish(ctx, r, revision, protocol.Errorf(protocol.Internal, "the approval that the task waits for is lost, and its stored request cannot be read any more").With("reason", "lost")))
}

func (s *Service) isDisowned(id protocol.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, unwanted := s.disowned[id]
	return unwanted
}

// remove deletes a disowned task.
func (s *Service) remove(ctx context.Context, r *Record, revision uint64) error {
	if err := raced(s.opts.Tasks.Delete(ctx, string(r.ID), revision)); err != nil {
		return err
	}
	s.withdraw(ctx, r, "the call was not kept")
	return nil
}

// errNotMine is the error of a job whose task another job or a cancellation has taken.
var errNotMine = errors.New("the task belongs to another job now")

// raced is the error of a write, nil if another write came first: then nothing is left
// to do.
func raced(err error) error {
	switch protocol.CodeOf(err) {
	case protocol.RevisionConflict, protocol.NotFound:
		return nil
	}
	return err
}

// end stores and publishes the end of a task. It repeats failed writes until the
// service closes; the next bridge then resumes the task.
func (s *Service) end(ctx context.Context, job *Job, result []byte, err error) {
	ended := s.over(job.record, result, err)
	for {
		failed := job.store(ctx, ended)
		if failed == nil {
			break
		}
		if errors.Is(failed, errNotMine) {
			return
		}
		s.opts.Log.Warn("the end of a task is not stored yet", "task", ended.ID, "error", failed)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
	}
	if ended.Failure != nil {
		result = nil
		s.withdraw(ctx, ended, "the task has ended: "+ended.Failure.Message)
	}
	s.publishEnd(ended, result)
}

// withdraw withdraws the approval of a task. If that cannot be stored now, tidy does it
// later.
func (s *Service) withdraw(ctx context.Context, r *Record, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	if err := s.opts.Approvals.Withdraw(ctx, r.Approval, why); err != nil {
		s.opts.Log.Warn("the question of a task is not taken back yet", "task", r.ID, "error", err)
	}
}

// run resumes a task as its current principal, as long as the credential of the task is
// valid.
func (j *Job) run(ctx context.Context) ([]byte, error) {
	s := j.service
	who, err := s.opts.Grants.Principal(j.record.Grant)
	if err != nil {
		return nil, protocol.AsError(err)
	}
	carry := s.continues[j.record.Command]
	if carry == nil {
		return nil, protocol.Errorf(protocol.Internal, "no handler resumes tasks of %s", j.record.Command)
	}
	if j.state, err = s.open(j.record.ID, j.record.Kept); err != nil {
		return nil, err
	}
	ctx, end := grant.While(ctx, s.opts.Grants, j.record.Grant)
	defer end()
	j.Principal = who
	result, err := j.perform(ctx, carry)
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, ErrParked) && !errors.Is(err, errNotMine) {
		err = why
	}
	return result, err
}

// perform calls a [Continue] and turns its panic into an error: the panic would end
// this bridge, and then the next one that resumes the task.
func (j *Job) perform(ctx context.Context, carry Continue) (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			j.service.opts.Log.Error("the handler of a task panicked", "task", j.record.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, err = nil, protocol.Errorf(protocol.Internal, "internal error")
		}
	}()
	return carry(ctx, j)
}
