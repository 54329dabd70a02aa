package store

import (
	"context"
	"sync"
)

// A catchUp asks NATS for the last revision of the registry, for all callers that
// need it at the same time.
type catchUp struct {
	mu      sync.Mutex
	running bool
	next    *asked // the callers since the question under way was asked
}

// An asked question is one of several, with its answer once done is closed.
type asked struct {
	done chan struct{}
	last uint64
	err  error
}

// Revision is that of the registry which the tables show.
func (s *Store) Revision() uint64 { return s.view.position.at.Load() }

// CatchUp waits until the tables show everything that was stored before the call,
// and reports whether they lacked anything.
func (s *Store) CatchUp(ctx context.Context) (moved bool, err error) {
	ctx, cancel := bounded(ctx, s.options.WriteTimeout)
	defer cancel()
	before := s.Revision()
	q := s.ask()
	select {
	case <-q.done:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if q.err != nil {
		return false, unavailable(q.err)
	}
	if q.last <= before {
		return false, nil
	}
	return true, s.follow(ctx, q.last)
}

// ask joins the next question.
func (s *Store) ask() *asked {
	c := &s.catchUp
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &asked{done: make(chan struct{})}
	}
	q := c.next
	if !c.running {
		c.running = true
		s.wait.Go(s.askOn)
	}
	return q
}

// askOn answers question after question, until there are none.
func (s *Store) askOn() {
	c := &s.catchUp
	for {
		c.mu.Lock()
		q := c.next
		if c.next = nil; q == nil {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.run, s.options.WriteTimeout)
		info, err := inspect(ctx, s.state, s.names.registry)
		cancel()
		if q.err = err; err == nil {
			q.last = info.State.LastSeq
		}
		close(q.done)
	}
}
