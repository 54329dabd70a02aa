package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A live is a reserved run: its engine runs, or it is being changed.
type live struct {
	id     string
	owner  protocol.Party
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed at the release

	mu       sync.Mutex
	record   *Record // current record
	revision uint64  // of the stored record, 0 for none
	seq      uint64  // of the last event
	turn     underWay
}

func (l *live) now() *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record
}

// reserve gives the caller the exclusive right in this process to change a run, until
// release. The revision is that of its record, 0 for a new one.
func (s *Service) reserve(r *Record, revision uint64) (*live, error) {
	l := &live{id: r.ID, owner: r.Owner.Party(), record: r, revision: revision, seq: r.Seq, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	case s.live[r.ID] != nil:
		return nil, protocol.Errorf(protocol.InvalidState, "the run is running").With("phase", string(Running))
	case len(s.live) >= s.opts.MaxRunning:
		return nil, protocol.BusyFor(time.Second, "too many runs are running")
	case s.own[l.owner] >= s.opts.MaxOwn:
		return nil, protocol.BusyFor(time.Second, "too many of your runs are running").With("limit", s.opts.MaxOwn)
	}
	s.live[r.ID] = l
	s.own[l.owner]++
	s.wg.Add(1)
	return l, nil
}

// release ends the reservation of a run.
func (s *Service) release(l *live) {
	l.cancel(nil)
	s.mu.Lock()
	delete(s.live, l.id)
	if s.own[l.owner]--; s.own[l.owner] == 0 {
		delete(s.own, l.owner)
	}
	s.mu.Unlock()
	close(l.done)
	s.wg.Done()
	s.wake() // another run may wait for the place
}

func (s *Service) find(id string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// lookup returns the current record of a run that a principal may see, and its
// reservation here, nil for none.
func (s *Service) lookup(who *protocol.Principal, id string) (*Record, *live, error) {
	l := s.find(id)
	var r *Record
	if l != nil {
		r = l.now()
	} else {
		r, _, _ = s.opts.Runs.Get(id)
	}
	if r == nil || !r.visibleTo(who) {
		return nil, nil, noRun(id)
	}
	return r, l, nil
}

// Standing returns the current state of a run, without a check of rights.
func (s *Service) Standing(id string) (Result, bool) {
	if l := s.find(id); l != nil {
		return s.result(l.now()), true
	}
	r, _, ok := s.opts.Runs.Get(id)
	if !ok {
		return Result{}, false
	}
	return s.result(r), true
}

// Mark changes whenever a run comes to rest or continues. It is "" for a run that the
// principal may not continue.
func (s *Service) Mark(who *protocol.Principal, id string) string {
	r, err := s.mine(who, id)
	if err != nil {
		return ""
	}
	return fmt.Sprint(r.Phase, r.Turns, r.Changed.UnixMilli())
}

func noRun(id string) error {
	return protocol.Errorf(protocol.NotFound, "no run %.100q", id).With("run_id", id)
}

// mine is lookup for a caller that acts with its own rights.
func (s *Service) mine(who *protocol.Principal, id string) (*Record, error) {
	r, _, err := s.lookup(who, id)
	if err == nil && !r.Owner.By(who) {
		err = protocol.Errorf(protocol.PermissionDenied, "only the principal that started a run can continue it").With("run_id", id)
	}
	return r, err
}
