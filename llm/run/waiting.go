package run

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
)

// The times of the care of waiting runs.
const (
	lookAfterEvery = time.Minute // interval of looks at all waiting runs
	againAfter     = time.Second // pause after a failed resumption
)

// eventWaiting is the event of every task that waits for an approval, runs included.
const eventWaiting = "task.waiting"

// Keeps reports whether a run waits for an approval, or runs the approved call.
func (s *Service) Keeps(run, approval string) bool {
	r, _, ok := s.opts.Runs.Get(run)
	return ok && r.Waits != nil && r.Waits.Approval == approval
}

// Principal is the principal that started a run, with its current rights.
func (s *Service) Principal(run string) (*protocol.Principal, error) {
	r, _, ok := s.opts.Runs.Get(run)
	if !ok {
		return nil, noRun(run)
	}
	return s.opts.Grants.Principal(r.Owner)
}

// settled adds a run whose approval is settled to the ready ones.
func (s *Service) settled(run string) {
	s.mu.Lock()
	s.ready = append(s.ready, run)
	s.mu.Unlock()
	s.wake()
}

// wake triggers a look at the ready runs.
func (s *Service) wake() {
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// later adds a run to the ready ones after a pause.
func (s *Service) later(run string) {
	time.AfterFunc(againAfter, func() { s.settled(run) })
}

// lookAfterWaiting resumes runs whose approvals are settled, until the service closes.
func (s *Service) lookAfterWaiting() {
	tick := time.NewTicker(lookAfterEvery)
	defer tick.Stop()
	for {
		s.lookAtReady()
		select {
		case <-s.stir:
		case <-tick.C:
			s.lookAtAll()
		case <-s.ctx.Done():
			return
		}
	}
}

// lookAtReady resumes the ready runs. Runs without a place stay ready until another run
// has come to rest.
func (s *Service) lookAtReady() {
	s.mu.Lock()
	ready := s.ready
	s.ready = nil
	s.mu.Unlock()
	var rest []string
	for i, id := range ready {
		if protocol.CodeOf(s.lookAt(id)) != protocol.Busy {
			continue
		}
		rest = append(rest, id)
		if s.full() { // no place for any run
			rest = append(rest, ready[i+1:]...)
			break
		}
	}
	s.mu.Lock()
	s.ready = append(rest, s.ready...)
	s.mu.Unlock()
}

func (s *Service) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) >= s.opts.MaxRunning
}

// lookAtAll looks at every waiting run.
func (s *Service) lookAtAll() {
	for _, r := range s.opts.Runs.All() {
		if r.Phase == WaitingApproval {
			s.settled(r.ID)
		}
	}
}

// lookAt resumes a waiting run if its approval is settled, or if its owner has lost the
// right to it, and opens its approval again if it is unknown. The error is Busy if
// there is no place for the run.
func (s *Service) lookAt(id string) error {
	r, revision, ok := s.opts.Runs.Get(id)
	if !ok || r.Phase != WaitingApproval || !s.hasRun(r) {
		return nil
	}
	known, settled := s.opts.Approvals.Known(r.Waits.Approval)
	_, ended := s.owner(r)
	if ended == nil && known && !settled {
		return nil
	}
	l, err := s.reserve(r, revision)
	switch {
	case err != nil:
		return err
	case ended == nil && !known: // the bridge stopped before it had opened the approval, or the approval is lost
		go s.askAgain(l)
	default:
		go s.takeUp(l)
	}
	return nil
}

// askAgain opens the unknown approval of a run again.
func (s *Service) askAgain(l *live) {
	defer s.release(l)
	told := story{done: func(int, *toldTurn) {}}
	if err := readDiary(l.ctx, s.shelf.peek(l.ctx, l.id), "run/"+l.id, s.opts.Sealer, told.read); err != nil || told.wait == nil {
		s.opts.Log.Warn("the question that a run waits for cannot be read", "run", l.id, "error", err)
		return
	}
	s.ask(l.ctx, l.id, told.wait.stop().waits)
}

// takeUp resumes a waiting run. Only the bridge that replaces the run's record does so.
func (s *Service) takeUp(l *live) {
	r := *l.now()
	r.Phase, r.Node, r.Changed = Running, s.opts.Node, s.opts.Now().UTC()
	if err := s.store(l.ctx, l, &r); err != nil {
		s.release(l)
		if !errors.Is(err, errElsewhere) && s.ctx.Err() == nil {
			s.opts.Log.Warn("a run could not be taken up, and will be later", "run", r.ID, "error", err)
			s.later(r.ID)
		}
		return
	}
	s.tell(l, eventPhase, phaseEvent{Phase: Running})
	o, err := s.reopen(l.ctx, &r, l.revision)
	if err == nil && o.story.wait == nil {
		s.close(l, o)
		err = fault.Errorf(fault.Internal, "the waiting call of the run cannot be found any more")
	}
	switch {
	case errors.Is(err, errElsewhere):
		s.release(l)
	case later(err):
		s.release(l)
		s.resumeLater(r.ID)
	case err != nil:
		s.settle(l, (&engine{}).broken(l.ctx, err), r.Turns)
	default:
		s.carry(l, s.engine(l, o), o, o.decided())
	}
}

// resumeLater resumes a run of this process after a pause, unless it is running
// already.
func (s *Service) resumeLater(id string) {
	time.AfterFunc(againAfter, func() {
		r, _, ok := s.opts.Runs.Get(id)
		if !ok || r.Phase != Running || r.Node != s.opts.Node || s.find(id) != nil {
			return
		}
		if err := s.resume(s.ctx, id); err != nil && s.ctx.Err() == nil {
			s.resumeLater(id)
		}
	})
}

// ask opens the approval of a run's call. If it cannot be stored now, lookAt opens it
// later.
func (s *Service) ask(ctx context.Context, id string, p *parking) {
	defer p.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	if err := s.opts.Approvals.Open(ctx, p.asks); err != nil {
		s.opts.Log.Warn("the question that a run waits for is not stored yet", "run", id, "error", err)
		s.later(id)
	}
}

// withdraw withdraws an approval that no run needs. If that cannot be stored now, the
// removal of abandoned approvals does it.
func (s *Service) withdraw(id, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	if err := s.opts.Approvals.Withdraw(ctx, id, why); err != nil {
		s.opts.Log.Warn("the question of a run is not taken back yet", "approval", id, "error", err)
	}
}

// hasRun reports whether the files of a run are accessible here: in a folder of this
// bridge, or in the logs of the cluster.
func (s *Service) hasRun(r *Record) bool {
	if s.opts.Logs != nil {
		return true
	}
	_, err := os.Stat(s.folder(r.ID))
	return !errors.Is(err, os.ErrNotExist)
}

// changed wakes the callers that wait for a run to change.
func (s *Service) changed(id string, _, _ *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.heard[id] {
		close(ch)
	}
	delete(s.heard, id)
}

// attend returns a channel that is closed when a run changes, and a function that ends
// the wait.
func (s *Service) attend(id string) (changed <-chan struct{}, leave func()) {
	ch := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[id] = append(s.heard[id], ch)
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if others := slices.DeleteFunc(s.heard[id], func(other chan struct{}) bool { return other == ch }); len(others) > 0 {
			s.heard[id] = others
		} else {
			delete(s.heard, id)
		}
	}
}
