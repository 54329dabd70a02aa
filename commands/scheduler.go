package commands

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// A lane is a queue of the scheduler, in the order of precedence.
type lane uint8

const (
	highLane lane = iota
	mediumLane
	lowLane
	lanes
)

func laneOf(p protocol.Priority) lane {
	switch p {
	case protocol.High:
		return highLane
	case protocol.Low:
		return lowLane
	case protocol.Medium:
	}
	return mediumLane
}

// patience is the number of times a lane with waiting calls may be passed over
// before it is served, ahead of all lanes above. So under full load of all
// three about 3 in 4 slots go to high, and low still gets its share.
var patience = [lanes]int{mediumLane: 4, lowLane: 12}

// A turn waits for a worker slot.
type turn interface {
	// take is called when there is a slot; it must not block.
	take()
}

// A scheduler hands out a bounded number of worker slots, high before medium
// before low priority without starving any.
type scheduler struct {
	mu      sync.Mutex
	free    int
	waiting [lanes]fifo
	passed  [lanes]int // since the lane was served last
}

func newScheduler(workers int) *scheduler { return &scheduler{free: workers} }

// start takes a slot for a turn, now or when it comes.
func (s *scheduler) start(p protocol.Priority, t turn) {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		t.take()
		return
	}
	s.waiting[laneOf(p)].push(t)
	s.mu.Unlock()
}

// acquire takes a slot for the calling goroutine, waiting for it if need be.
// It reports false if ctx ended before.
func (s *scheduler) acquire(ctx context.Context, p protocol.Priority) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	r := &resumption{slots: s, ready: make(chan struct{})}
	s.waiting[laneOf(p)].push(r)
	s.mu.Unlock()
	select {
	case <-r.ready:
		return true
	case <-ctx.Done():
		return r.settled.Swap(true) // true: the slot came at the same moment
	}
}

// A resumption is the turn of a goroutine that waits in acquire. The slot or the
// end of the context, whichever settles it first, decides.
type resumption struct {
	slots   *scheduler
	ready   chan struct{}
	settled atomic.Bool
}

func (r *resumption) take() {
	if r.settled.Swap(true) {
		r.slots.release() // the waiter has left
		return
	}
	close(r.ready)
}

// release gives a slot to the next turn.
func (s *scheduler) release() {
	if t := s.pass(); t != nil {
		t.take()
	}
}

// pass gives the caller's slot to the next turn, which it returns, or frees the
// slot and returns nil if none waits.
func (s *scheduler) pass() turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.next()
	if t == nil {
		s.free++
	}
	return t
}

// next removes and returns the next turn, nil if none waits.
func (s *scheduler) next() turn {
	chosen := lanes
	for l := range lanes {
		switch {
		case s.waiting[l].len() == 0:
		case chosen == lanes:
			chosen = l
		case s.passed[l] >= patience[l]:
			chosen = l // the lowest of the impatient
		}
	}
	if chosen == lanes {
		return nil
	}
	for l := range lanes {
		if l == chosen || s.waiting[l].len() == 0 {
			s.passed[l] = 0
		} else if l > chosen {
			s.passed[l]++
		}
	}
	return s.waiting[chosen].pop()
}

// depth is the number of calls that wait in a lane.
func (s *scheduler) depth(l lane) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[l].len()
}

// queued is the number of calls that wait in all lanes.
func (s *scheduler) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for l := range lanes {
		n += s.waiting[l].len()
	}
	return n
}

// A fifo is a queue in a ring that grows.
type fifo struct {
	ring  []turn
	head  int
	count int
}

func (q *fifo) len() int { return q.count }

func (q *fifo) push(t turn) {
	if q.count == len(q.ring) {
		grown := make([]turn, max(2*len(q.ring), 16))
		n := copy(grown, q.ring[q.head:])
		copy(grown[n:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.count)%len(q.ring)] = t
	q.count++
}

func (q *fifo) pop() turn {
	t := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.count--
	return t
}
