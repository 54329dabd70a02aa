package parked

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An attendance is a caller that waits for a task, with its events.
type attendance struct {
	changed chan struct{}

	mu   sync.Mutex
	tell func(event string, data any) // nil once the caller has left
}

// hear passes an event on to the caller until it has left.
func (a *attendance) hear(event string, data any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tell != nil {
		a.tell(event, data)
	}
}

// leave ends the passing on of events. It waits for a running one.
func (a *attendance) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell = nil
}

func (a *attendance) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// The share of a call's remaining time that is reserved for its work after a decision:
// a fifth, but at most five seconds.
const (
	reserveShare = 5
	maxReserve   = 5 * time.Second
)

// Until is the time until which a call with context ctx waits for a decision: at most
// for wait, or for the configured time if wait is negative.
func (s *Service) Until(ctx context.Context, wait time.Duration) time.Time {
	now := s.opts.Now()
	if wait < 0 {
		wait = s.opts.Wait
	}
	until := now.Add(wait)
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(now)
		if usable := now.Add(left - min(left/reserveShare, maxReserve)); usable.Before(until) {
			until = usable
		}
	}
	return until
}

// Await waits until a task has ended, and returns its result or its error. It reports
// false if the task still waits for a decision at the time until, or when ctx ends or
// the bridge stops. Events of the task go to tell as well. A task that the table does
// not show yet counts as waiting: it was stored, and the table follows a slow store.
func (s *Service) Await(ctx context.Context, id protocol.TaskID, until time.Time, tell func(event string, data any)) (result json.RawMessage, ended bool, err error) {
	a := &attendance{changed: make(chan struct{}, 1), tell: tell}
	s.attend(id, a)
	defer a.leave() // the attendance itself lasts until the end is published, see publish
	patience := time.NewTimer(until.Sub(s.opts.Now()))
	defer patience.Stop()
	for over, seen := false, false; ; {
		r, _, ok := s.opts.Tasks.Get(string(id))
		seen = seen || ok
		switch {
		case !ok && seen:
			s.miss(id, a)
			return nil, true, protocol.Errorf(protocol.NotFound, "no task %q", id).With("task_id", id)
		case ok && r.State.Over():
			result, err = s.outcome(r)
			return result, true, err
		case over && (!ok || !s.underWay(r)), ctx.Err() != nil, s.ctx.Err() != nil:
			return s.giveUp(id, a)
		}
		select {
		case <-a.changed:
		case <-patience.C:
			over = true
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
}

// giveUp ends an attendance at a waiting task. If the end of the task was published to
// this attendance meanwhile, giveUp returns that end: no message to the return address
// will follow.
func (s *Service) giveUp(id protocol.TaskID, a *attendance) (result json.RawMessage, ended bool, err error) {
	if s.miss(id, a) {
		return nil, false, nil
	}
	r, _, ok := s.opts.Tasks.Get(string(id))
	if !ok || !r.State.Over() {
		return nil, false, nil
	}
	result, err = s.outcome(r)
	return result, true, err
}

// outcome is the result of a task that has ended, or its error.
func (s *Service) outcome(r *Record) (json.RawMessage, error) {
	if err := s.err(r); err != nil {
		return nil, err
	}
	return s.open(r.ID, r.Result)
}

func (s *Service) attend(id protocol.TaskID, a *attendance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[id] = append(s.heard[id][:len(s.heard[id]):len(s.heard[id])], a)
}

// miss removes an attendance, and reports whether it was still registered: the
// publication of a task's end removes all of them.
func (s *Service) miss(id protocol.TaskID, a *attendance) (there bool) {
	a.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []*attendance
	for _, other := range s.heard[id] {
		if other != a {
			others = append(others, other)
		}
	}
	there = len(others) < len(s.heard[id])
	if s.heard[id] = others; len(others) == 0 {
		delete(s.heard, id)
	}
	return there
}
