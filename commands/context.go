package commands

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A callContext is the context of one call. It has no timer of its own: the
// call ends it when it is answered for lack of time. It allocates nothing
// before the first wait. These are its advantages over the contexts of the
// standard library, on the way of every call.
type callContext struct {
	parent   context.Context // for values
	deadline time.Time

	ended    atomic.Bool // err is set
	followed atomic.Bool // contexts or goroutines may look at it later

	mu      sync.Mutex
	err     error
	done    chan struct{} // made when asked for
	watches *Watch        // called at the end
}

// A Watch is called at the end of a call's context. It serves watchers of many
// calls, which keep the Watch inside a value that they need anyway; see
// [Watchable].
type Watch struct {
	of         *callContext
	who        interface{ Ended() } // the watcher; nil once it was notified or is stopped
	prev, next *Watch
}

// A Watchable context, such as that of a call, has Ended called on a goroutine
// of its own when it ends, unless the watch was stopped before.
type Watchable interface {
	Watch(w *Watch, who interface{ Ended() })
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *callContext) Value(key any) any { return c.parent.Value(key) }

func (c *callContext) Err() error {
	if !c.ended.Load() {
		return nil // as nearly always
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.followed.Store(true)
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// AfterFunc is asked for by package context before it would start a
// goroutine for every context derived from this one.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.followed.Store(true)
	w := new(Watch)
	c.Watch(w, ending(f))
	return w.Stop
}

// An ending is a function to be called at the end of a context.
type ending func()

// Ended calls it.
func (f ending) Ended() { f() }

// Watch implements [Watchable].
func (c *callContext) Watch(w *Watch, who interface{ Ended() }) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go who.Ended()
		return
	}
	*w = Watch{of: c, who: who, next: c.watches}
	if w.next != nil {
		w.next.prev = w
	}
	c.watches = w
}

// Stop ends the watch and reports whether it came before the end of the
// context.
func (w *Watch) Stop() bool {
	if w.of == nil {
		return false
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.who == nil {
		return false
	}
	w.who = nil
	if w.prev == nil {
		w.of.watches = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	return true
}

// isFollowed reports whether others may still look at the context.
func (c *callContext) isFollowed() bool { return c.followed.Load() }

// end ends the context, once.
func (c *callContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.ended.Store(true)
	if c.done != nil {
		close(c.done)
	}
	for w := c.watches; w != nil; w = w.next {
		go w.who.Ended()
		w.who = nil
	}
	c.watches = nil
}
