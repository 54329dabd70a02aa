package commands

import (
	"context"
	"sync"
	"time"
)

// A callContext is the context of one call. It has no timer of its own: the
// call ends it when it is answered for lack of time. That, and that nothing
// is made before somebody waits for it, is what it has over the contexts of
// the standard library on the way of every call.
type callContext struct {
	parent   context.Context // for values
	deadline time.Time

	mu    sync.Mutex
	err   error
	done  chan struct{} // made when asked for
	after *after        // to be called at the end
}

// An after is a function to be called at the end of a context.
type after struct {
	of         *callContext
	call       func() // nil once it was called or is not to be
	prev, next *after
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *callContext) Value(key any) any { return c.parent.Value(key) }

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// AfterFunc is what package context asks for before it would start a
// goroutine for every context derived from this one.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	a := &after{of: c, call: f, next: c.after}
	if a.next != nil {
		a.next.prev = a
	}
	c.after = a
	return a.stop
}

func (a *after) stop() bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.call == nil {
		return false
	}
	a.call = nil
	if a.prev == nil {
		a.of.after = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	return true
}

// end ends the context, once.
func (c *callContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	for a := c.after; a != nil; a = a.next {
		go a.call()
		a.call = nil
	}
	c.after = nil
}
