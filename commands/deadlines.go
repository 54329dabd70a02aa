package commands

import (
	"sync"
	"time"
)

// deadlines expire calls whose deadline has come. Nearly all calls end long
// before, and most have one of a few timeouts. Those with the same timeout
// reach it in the order they came: so they make a list, and a list needs one
// timer, for its first call, that need not be touched when calls come or go.
type deadlines struct {
	mu    sync.Mutex
	lists map[time.Duration]*deadlineList
	last  *deadlineList // that a call was set in, nil for none
}

type deadlineList struct {
	all         *deadlines
	timeout     time.Duration
	first, last *Call
	timer       *time.Timer // nil while nothing is to be looked at
}

// mostLists is the number of lists from which on empty ones are removed.
const mostLists = 64

func newDeadlines() *deadlines { return &deadlines{lists: make(map[time.Duration]*deadlineList)} }

// set has a call expire after a time.
func (a *deadlines) set(c *Call, timeout time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.last
	if l == nil || l.timeout != timeout {
		l = a.list(timeout)
		a.last = l
	}
	c.list, c.due = l, c.arrived.Add(timeout)
	if c.earlier = l.last; c.earlier == nil {
		l.first = c
	} else {
		c.earlier.later = c
	}
	l.last = c
	if l.timer == nil {
		l.timer = time.AfterFunc(timeout, l.ring)
	}
}

// list is the list of a timeout.
func (a *deadlines) list(timeout time.Duration) *deadlineList {
	l := a.lists[timeout]
	if l == nil {
		l = &deadlineList{all: a, timeout: timeout}
		a.lists[timeout] = l
	}
	return l
}

// clear lets a call be.
func (a *deadlines) clear(c *Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.list != nil {
		a.remove(c)
	}
}

func (a *deadlines) remove(c *Call) {
	l := c.list
	if c.earlier == nil {
		l.first = c.later
	} else {
		c.earlier.later = c.later
	}
	if c.later == nil {
		l.last = c.earlier
	} else {
		c.later.earlier = c.earlier
	}
	c.list, c.earlier, c.later = nil, nil, nil
	if l.first == nil && len(a.lists) > mostLists {
		a.drop(l)
	}
}

func (a *deadlines) drop(l *deadlineList) {
	delete(a.lists, l.timeout)
	if a.last == l {
		a.last = nil
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}

// ring expires the calls of a list that are due.
func (l *deadlineList) ring() {
	a := l.all
	var due []*Call
	a.mu.Lock()
	l.timer = nil
	for c := l.first; c != nil; c = l.first {
		if left := c.due.Sub(c.router.opts.Now()); left > 0 {
			l.timer = time.AfterFunc(left, l.ring)
			break
		}
		a.remove(c)
		c.Hold()
		due = append(due, c)
	}
	a.mu.Unlock()
	for _, c := range due {
		c.expire()
		c.Release()
	}
}

// stop ends all timers.
func (a *deadlines) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lists {
		a.drop(l)
	}
}
