package caps

import (
	"container/heap"
	"context"
	"time"
)

// A schedule has mirrors take their turns when they are due, a bounded number
// at a time. A mirror with nothing to do is an item in a heap, and no more.
type schedule struct {
	wake chan struct{}
	free chan struct{} // a token for every turn that may begin

	// The lock of the service has these.
	queue queue
}

func newSchedule(turns int) *schedule {
	return &schedule{wake: make(chan struct{}, 1), free: make(chan struct{}, turns)}
}

// at has a mirror take a turn at a time, or earlier if it was to. The lock of
// the service is held.
func (s *schedule) at(m *capMirror, due time.Time) {
	switch {
	case m.ended:
		return
	case m.running:
		if m.again.IsZero() || due.Before(m.again) {
			m.again = due
		}
		return
	case m.place < 0:
		m.due = due
		heap.Push(&s.queue, m)
	case due.Before(m.due):
		m.due = due
		heap.Fix(&s.queue, m.place)
	}
	if s.queue[0] == m {
		s.look()
	}
}

// look has the schedule look again for due tasks.
func (s *schedule) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// remove takes a mirror out. The lock of the service is held.
func (s *schedule) remove(m *capMirror) {
	if m.place >= 0 {
		heap.Remove(&s.queue, m.place)
	}
}

// run gives mirrors their turns until ctx ends.
func (s *Service) schedule(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.turns.wake:
		case <-timer.C:
		}
		for {
			m, wait := s.next()
			if m == nil {
				timer.Reset(wait)
				break
			}
			select {
			case s.turns.free <- struct{}{}:
			case <-ctx.Done():
				s.finish(m, time.Time{})
				return
			}
			s.parts.Go(func() {
				defer func() { <-s.turns.free }()
				s.finish(m, s.turn(ctx, m))
			})
		}
	}
}

// next takes the mirror that is due, or returns the time until one is.
func (s *Service) next() (*capMirror, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns.queue) == 0 {
		return nil, time.Hour
	}
	m := s.turns.queue[0]
	if wait := time.Until(m.due); wait > 0 {
		return nil, wait
	}
	heap.Pop(&s.turns.queue)
	m.running = true
	return m, 0
}

// finish ends a turn: the next is at the given time, or earlier if that was asked
// for meanwhile.
func (s *Service) finish(m *capMirror, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.running = false
	if !m.again.IsZero() && (next.IsZero() || m.again.Before(next)) {
		next = m.again
	}
	m.again = time.Time{}
	if m.ended {
		s.end(m)
		return
	}
	if !next.IsZero() {
		s.turns.at(m, next)
	}
}

// A queue is a heap of mirrors, the next one due first.
type queue []*capMirror

// Len implements [heap.Interface], and so do those that follow.
func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	m := x.(*capMirror)
	m.place = len(*q)
	*q = append(*q, m)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(*q) - 1
	m := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	m.place = -1
	return m
}
