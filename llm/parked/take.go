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

// pause is the time that a task waits that could not be taken up.
const pause = time.Second

// later has a task looked at again after a pause, which is the longer the more often
// its work was in vain.
func (s *Service) later(id protocol.TaskID) {
	s.mu.Lock()
	wait := min(pause<<s.inVain[id], longestPause)
	s.mu.Unlock()
	time.AfterFunc(wait, func() { s.enqueue(id) })
}

// takeUp goes on with a task whose question is settled, or that an earlier
// process went on with. Only one does: whoever replaces the record.
func (s *Service) takeUp(ctx context.Context, id protocol.TaskID) {
	t, ctx := s.enter(ctx, id)
	if t == nil {
		return // it goes on already, and looks again when it is done
	}
	err := s.goOn(ctx, id)
	s.giveBack(id, t)
	if err != nil && s.ctx.Err() == nil {
		s.opts.Log.Warn("a task could not be taken up, and will be later", "task", id, "error", err)
		s.later(id)
	}
}

// enter makes the task this goroutine's. It returns nil if it is another's.
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

// giveBack ends a turn. What happened to the task meanwhile is looked at again.
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

// goOn goes on with a task if it is time.
func (s *Service) goOn(ctx context.Context, id protocol.TaskID) error {
	r, revision, ok := s.opts.Tasks.Get(string(id))
	if !ok || r.State.Over() {
		return nil
	}
	if s.isDisowned(id) {
		return s.remove(ctx, r, revision)
	}
	known, settled := s.opts.Approvals.Known(r.Approval)
	if r.State == Waiting && !known { // the bridge stopped before it had asked, or the question is lost
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

// underWay reports whether somebody goes on with a task, or died of it: the record says
// so, or the approval that was used for the call.
func (s *Service) underWay(r *Record) bool {
	return r.State == Running || r.State == Waiting && s.opts.Approvals.UsedAt(r.Approval) != 0
}

// ifMine is an error, unless that is that the task is another's.
func ifMine(err error) error {
	if errors.Is(err, errNotMine) {
		return nil
	}
	return err
}

// went does what is to be done after somebody has gone on with a task. It returns
// the error of one that is gone on with later.
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

// A task is gone on with as often, in one process, if each time its own record could
// be stored and something else could not. The pauses in between grow to the longest,
// so that it has some minutes.
const (
	mostInVain   = 10
	longestPause = time.Minute
)

// goesOnAgain notes that the work of a task was in vain, and reports whether it is to
// be tried again.
func (s *Service) goesOnAgain(id protocol.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inVain[id]++
	return s.inVain[id] < mostInVain
}

// tooOften is the end of a task whose work was in vain each time.
func tooOften(last error) error {
	return protocol.Errorf(protocol.StoreUnavailable, "the task was gone on with %d times, and each time something could not be stored; the last time: %s", mostInVain, protocol.AsError(last).Message).
		With("reason", "attempts").With("attempts", mostInVain)
}

// askAgain asks the question of a task that nobody knows. One that cannot be read any
// more ends the task.
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

// lose ends a task that waits for nothing that is known.
func (s *Service) lose(ctx context.Context, r *Record, revision uint64) error {
	return raced(s.finish(ctx, r, revision, protocol.Errorf(protocol.Internal, "the approval that the task waits for is lost, and what was kept of it cannot be read any more").With("reason", "lost")))
}

func (s *Service) isDisowned(id protocol.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, unwanted := s.disowned[id]
	return unwanted
}

// remove takes a task out that nobody was told of.
func (s *Service) remove(ctx context.Context, r *Record, revision uint64) error {
	if err := raced(s.opts.Tasks.Delete(ctx, string(r.ID), revision)); err != nil {
		return err
	}
	s.withdraw(ctx, r, "the call was not kept")
	return nil
}

// errNotMine says that somebody else has replaced the record of a task.
var errNotMine = errors.New("the task is somebody else's now")

// raced is the error of a write that others may have made meanwhile: then there
// is nothing left to do.
func raced(err error) error {
	switch protocol.CodeOf(err) {
	case protocol.RevisionConflict, protocol.NotFound:
		return nil
	}
	return err
}

// end stores how a task ended and tells it. While the store is away it keeps
// trying; the next bridge goes on with what could not be stored.
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

// withdraw takes the question of a task back. What cannot be stored now is done
// when it is tidied up.
func (s *Service) withdraw(ctx context.Context, r *Record, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	if err := s.opts.Approvals.Withdraw(ctx, r.Approval, why); err != nil {
		s.opts.Log.Warn("the question of a task is not taken back yet", "task", r.ID, "error", err)
	}
}

// run finds out for whom a task goes on, and has it do so as long as that
// credential is good.
func (j *Job) run(ctx context.Context) ([]byte, error) {
	s := j.service
	who, err := s.opts.Grants.Principal(j.record.Grant)
	if err != nil {
		return nil, protocol.AsError(err)
	}
	carry := s.continues[j.record.Command]
	if carry == nil {
		return nil, protocol.Errorf(protocol.Internal, "nobody goes on with tasks of %s", j.record.Command)
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

// perform goes on with a task, whatever happens in it: what ends this bridge would
// end the next one, too, which goes on with it.
func (j *Job) perform(ctx context.Context, carry Continue) (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			j.service.opts.Log.Error("whoever went on with a task panicked", "task", j.record.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, err = nil, protocol.Errorf(protocol.Internal, "internal error")
		}
	}()
	return carry(ctx, j)
}
