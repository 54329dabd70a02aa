package fair

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Semaphore].
type Options struct {
	What     string        // there are too many of when there is no place: "files under way"
	Capacity int64         // places, or bytes
	Waiting  int           // parties' requests that may wait, divided like the places; 0 for none
	Patience time.Duration // how long one may wait, 0 as long as its context allows
}

// A Semaphore gives out places. Its methods may be called from several
// goroutines.
type Semaphore struct {
	options Options

	mu     sync.Mutex
	places pool
	room   pool    // of those that wait
	turns  []*turn // of the principals that wait, the next one first
	// starving is set while a principal waits whose share has room, so that a later
	// one that needs less does not overtake it.
	starving bool
}

// A turn is a principal's requests that wait, the oldest first.
type turn struct {
	principal string
	queue     []*Ticket
}

// A Ticket is a request for places, which has them or waits for them.
type Ticket struct {
	semaphore *Semaphore
	who       Party
	n         int64
	granted   chan struct{} // closed when it has its places
}

// New makes a semaphore whose places are all free.
func New(o Options) *Semaphore {
	return &Semaphore{options: o, places: newPool(max(1, o.Capacity)), room: newPool(int64(o.Waiting))}
}

// TryAcquire takes n places, or fails with 4008. Their holder gives them back
// by [Semaphore.Release].
func (s *Semaphore) TryAcquire(who Party, n int64) *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(who, n)
}

// take takes places at once. s.mu is held.
func (s *Semaphore) take(who Party, n int64) *protocol.Error {
	whose := s.places.lacks(who, n)
	switch {
	case whose != OfNobody:
		return s.refusal(whose)
	case s.starving && !who.Privileged, s.turnOf(who) != nil:
		return s.refusal(OfBridge)
	}
	s.places.add(who, n)
	return nil
}

// Acquire takes n places as soon as there are some. It fails with 4008 when too
// many wait, or for too long, and with the cause of ctx's end.
func (s *Semaphore) Acquire(ctx context.Context, who Party, n int64) error {
	t, err := s.Enter(who, n)
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// Enter takes n places, or a seat among those that wait for some, and fails
// with 4008 when there is neither. [Ticket.Wait] must follow.
func (s *Semaphore) Enter(who Party, n int64) (*Ticket, *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Ticket{semaphore: s, who: who, n: n}
	full := s.take(who, n)
	if full == nil {
		return t, nil
	}
	if s.options.Waiting == 0 || n > s.places.own(who) || s.room.lacks(who, 1) != OfNobody {
		return nil, full
	}
	s.room.add(who, 1)
	t.granted = make(chan struct{})
	its := s.turnOf(who)
	if its == nil {
		its = &turn{principal: who.Principal}
		s.turns = append(s.turns, its)
	}
	its.queue = append(its.queue, t)
	s.grant()
	return t, nil
}

// Wait returns when the places are there, which [Semaphore.Release] gives back.
// It fails with 4008 when that takes too long, and with the cause of ctx's end.
func (t *Ticket) Wait(ctx context.Context) (err error) {
	if t.granted == nil {
		return nil
	}
	s := t.semaphore
	var late <-chan time.Time
	if s.options.Patience > 0 {
		timer := time.NewTimer(s.options.Patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
		err = s.full(t.who, t.n)
	}
	if s.leave(t) {
		return err
	}
	return nil // it was given its places at that moment
}

// Granted reports whether the places are there.
func (t *Ticket) Granted() bool {
	if t.granted == nil {
		return true
	}
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

// GiveUp gives back the ticket's places or its turn in the queue. It is for callers
// that end before they use the places.
func (t *Ticket) GiveUp() {
	if t.granted != nil && t.semaphore.leave(t) {
		return
	}
	t.semaphore.Release(t.who, t.n)
}

// full is the error for a principal that has waited for a place in vain.
func (s *Semaphore) full(who Party, n int64) *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal(s.places.lacks(who, n))
}

// leave takes one out of the queue, and reports whether it was still there.
func (s *Semaphore) leave(t *Ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	its := s.turnOf(t.who)
	if its == nil {
		return false
	}
	at := slices.Index(its.queue, t)
	if at < 0 {
		return false
	}
	s.remove(its, at)
	s.grant() // others may have waited behind it
	return true
}

// Release gives n places back.
func (s *Semaphore) Release(who Party, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places.add(who, -n)
	s.grant()
}

// grant gives free places to those that wait, one principal after the other.
// s.mu is held.
func (s *Semaphore) grant() {
	s.starving = false
	for at := 0; at < len(s.turns); {
		t := s.turns[at]
		w := t.queue[0]
		whose := s.places.lacks(w.who, w.n)
		if whose == OfBridge {
			s.starving = true
		}
		if whose != OfNobody || s.starving && !w.who.Privileged {
			at++
			continue
		}
		s.places.add(w.who, w.n)
		close(w.granted)
		s.remove(t, 0)
		if i := slices.Index(s.turns, t); i >= 0 { // it has more: behind all others
			s.turns = append(slices.Delete(s.turns, i, i+1), t)
		}
	}
}

// remove takes a request out of its queue, and an empty queue out of the turns.
func (s *Semaphore) remove(t *turn, at int) {
	s.room.add(t.queue[at].who, -1)
	t.queue = slices.Delete(t.queue, at, at+1)
	if len(t.queue) == 0 {
		s.turns = slices.DeleteFunc(s.turns, func(other *turn) bool { return other == t })
	}
}

func (s *Semaphore) turnOf(who Party) *turn {
	for _, t := range s.turns {
		if t.principal == who.Principal {
			return t
		}
	}
	return nil
}

// Free reports whether a party would get n places at once.
func (s *Semaphore) Free(who Party, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places.lacks(who, n) == OfNobody
}

// Used is the number of places that are taken.
func (s *Semaphore) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places.used
}

// Waiting is the number of requests that wait.
func (s *Semaphore) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.room.used)
}

// retryAfter is the time after which a caller that found no place should try again.
const retryAfter = time.Second

// refusal says that there is no place.
func (s *Semaphore) refusal(whose Whose) *protocol.Error {
	text := "too many " + s.options.What
	switch whose {
	case OfPrincipal:
		text += " of the caller's"
	case OfSpace:
		text += " of the caller's space"
	}
	return protocol.BusyFor(retryAfter, text).With("limit", s.options.What).With("of", string(whose))
}
