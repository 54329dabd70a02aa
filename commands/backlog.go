package commands

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// recordPause is the time that calls wait before it is asked again whether they can
// be recorded.
const recordPause = 10 * time.Millisecond

// A backlog holds calls that cannot be recorded yet, because the recorder has
// to catch up, and for which no goroutine waits. So callers that outrun the
// disk are slowed down by their windows and by the bound of calls in flight,
// and not refused; their deadlines end the wait. Further calls wait behind
// them: calls go on in the order they came.
type backlog struct {
	some atomic.Bool // len(calls) > 0, readable without the lock

	mu    sync.Mutex
	calls []*Call
	again *Call // the first one, if it has to wait on
}

// put has a call wait for the room to be recorded. It reports whether the call is the
// only one, so that the caller must begin to work off the backlog.
func (b *backlog) put(c *Call) (alone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) > 0 && b.calls[0] == c {
		b.again = c
		return false
	}
	b.add(c)
	return len(b.calls) == 1
}

// behind has a call wait if others do, and reports whether it waits.
func (b *backlog) behind(c *Call) bool {
	if !b.some.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) == 0 || b.calls[0] == c { // it is c's turn
		return false
	}
	b.add(c)
	return true
}

func (b *backlog) add(c *Call) {
	c.batched, c.postponed = false, true // its batch has been flushed by then
	b.calls = append(b.calls, c)
	b.some.Store(true)
}

// first is the call whose turn it is, nil if there is none.
func (b *backlog) first() *Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) == 0 {
		return nil
	}
	return b.calls[0]
}

// went notes that the first call was tried. It takes it out, unless it has to go on
// waiting, and reports whether it did.
func (b *backlog) went() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.again != nil {
		b.again = nil
		return false
	}
	b.calls[0] = nil
	b.calls = b.calls[1:]
	b.some.Store(len(b.calls) > 0)
	return true
}

// answered takes out the calls whose time ran out behind the first one.
func (b *backlog) answered() (over []*Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = slices.DeleteFunc(b.calls, func(c *Call) bool {
		gone := c != b.calls[0] && c.answered.Load()
		if gone {
			over = append(over, c)
		}
		return gone
	})
	return over
}

// postpone has a call wait in the backlog. Calls that would hold a worker
// meanwhile are refused instead.
func (r *Router) postpone(c *Call) {
	if r.backlog.put(c) {
		time.AfterFunc(recordPause, r.resume)
	}
}

// resume lets the calls of the backlog go on, one after the other, as long as
// they can be recorded.
func (r *Router) resume() {
	for c := r.backlog.first(); c != nil; c = r.backlog.first() {
		r.process(c)
		if !r.backlog.went() {
			for _, over := range r.backlog.answered() {
				r.process(over)
			}
			time.AfterFunc(recordPause, r.resume)
			return
		}
	}
}
