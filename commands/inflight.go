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
	of     map[protocol.Party]int
	first  *Call
	closed bool
	empty  chan struct{} // closed when the last one is done after close
}

func newInFlight(most int) *inFlight {
	return &inFlight{most: most, of: make(map[protocol.Party]int), empty: make(chan struct{})}
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
	case f.of[who] >= f.most-f.most/2:
		return greedy
	}
	f.count++
	f.of[who]++
	c.flying = true
	c.behind = f.first
	if f.first != nil {
		f.first.before = c
	}
	f.first = c
	return taken
}

// leave ends the place of a call. Calls that never entered are ignored.
func (f *inFlight) leave(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.flying {
		return
	}
	c.flying = false
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
	who := c.Principal.Party()
	if f.of[who]--; f.of[who] == 0 {
		delete(f.of, who)
	}
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
