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
	done  chan struct{}       // made when asked for
	after map[*after]struct{} // to be called at the end
}

type after struct{ call func() }

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
	a := &after{f}
	if c.after == nil {
		c.after = make(map[*after]struct{})
	}
	c.after[a] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.after[a]
		delete(c.after, a)
		return waiting
	}
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
	for a := range c.after {
		go a.call()
	}
	c.after = nil
}
