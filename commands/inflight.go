package commands

import (
	"context"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// inFlight are the calls that were taken and are not done: a call is done when
// it is answered and its handler has returned.
type inFlight struct {
	mu     sync.Mutex
	most   int
	count  int
	of     map[protocol.Party]*flights // of parties that have any, and of latest
	latest *flights                    // that changed, which most often is the next to change
	first  *Call
	closed bool
	empty  chan struct{} // closed when the last one is done after close
}

// flights are the number of calls of a party that are in flight.
type flights struct {
	who protocol.Party
	n   int
}

func newInFlight(most int) *inFlight {
	return &inFlight{most: most, of: make(map[protocol.Party]*flights), empty: make(chan struct{})}
}

// An admission is the decision whether a call is taken.
type admission uint8

const (
	taken admission = iota
	full
	greedy // the principal has enough calls in flight
	closing
)

// enter takes a call. The last eighth of the room is for high priority, and low
// priority may take half of it, so that a flood of unimportant calls does not
// shut out the others. One principal may take half of it.
func (f *inFlight) enter(c *Call) admission {
	room, who := f.most, c.Principal.Party()
	switch laneOf(c.Priority) {
	case lowLane:
		room -= f.most / 2
	case mediumLane:
		room -= f.most / 8
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return closing
	case f.count >= room:
		return full
	}
	of := f.flightsOf(who)
	if of.n >= f.most-f.most/2 {
		return greedy
	}
	f.count++
	of.n++
	c.flights = of
	c.behind = f.first
	if f.first != nil {
		f.first.before = c
	}
	f.first = c
	return taken
}

// flightsOf are the flights of a party, which become the latest.
func (f *inFlight) flightsOf(who protocol.Party) *flights {
	if f.latest != nil && f.latest.who == who {
		return f.latest
	}
	of := f.of[who]
	if of == nil {
		of = &flights{who: who}
		f.of[who] = of
	}
	f.turnTo(of)
	return of
}

// turnTo makes flights the latest. Those that were are forgotten if there are none.
func (f *inFlight) turnTo(of *flights) {
	if last := f.latest; last != nil && last != of && last.n == 0 {
		delete(f.of, last.who)
	}
	f.latest = of
}

// leave ends the place of a call. Calls that never entered are ignored.
func (f *inFlight) leave(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := c.flights
	if of == nil {
		return
	}
	c.flights = nil
	if c.before == nil {
		f.first = c.behind
	} else {
		c.before.behind = c.behind
	}
	if c.behind != nil {
		c.behind.before = c.before
	}
	c.before, c.behind = nil, nil
	f.count--
	of.n--
	f.turnTo(of)
	if f.closed && f.count == 0 {
		close(f.empty)
	}
}

// close takes no more calls and waits until all are done. If ctx ends first it
// returns the unfinished ones.
func (f *inFlight) close(ctx context.Context) (left []*Call) {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		if f.count == 0 {
			close(f.empty)
		}
	}
	f.mu.Unlock()
	select {
	case <-f.empty:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := f.first; c != nil; c = c.behind {
		c.Hold() // for good: it is cut off
		left = append(left, c)
	}
	return left
}

// matching are the calls for whose principals there is an error, with that. They
// are held.
func (f *inFlight) matching(why func(*protocol.Principal) error) map[*Call]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make(map[*Call]error)
	for c := f.first; c != nil; c = c.behind {
		if err := why(c.Principal); err != nil {
			c.Hold()
			list[c] = err
		}
	}
	return list
}

func (f *inFlight) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}
