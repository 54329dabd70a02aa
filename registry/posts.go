package registry

import (
	"context"
	"sync"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// How many standing calls are made over HTTP at once, and how many wait.
const (
	maxPosts   = 64
	maxWaiting = 16384
)

// Posts are the standing calls that are made over HTTP.
type posts struct {
	mu      sync.Mutex
	closed  bool
	byID    map[string]context.CancelFunc
	places  *fair.Semaphore
	running sync.WaitGroup
}

func newPosts() *posts {
	return &posts{
		byID:   make(map[string]context.CancelFunc),
		places: fair.New(fair.Options{What: "calls over HTTP", Capacity: maxPosts, Waiting: maxWaiting}),
	}
}

// start makes a call in the background until its deadline, when the caller may
// have another one made.
// A call that is being made is not made twice.
func (p *posts) start(c *StandingCall, call func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.byID[c.ID] != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), c.Deadline)
	p.byID[c.ID] = cancel
	p.running.Go(func() {
		defer p.stop(c.ID)
		party := fair.Party{Principal: c.Caller, Space: string(c.Space), Privileged: c.Caller == ""}
		err := p.places.Acquire(ctx, party, 1)
		if err == nil {
			defer p.places.Release(party, 1)
			call(ctx)
		} else if ctx.Err() == nil {
			c.Listener.Refused(protocol.AsError(err))
		}
	})
}

// stop ends a call, if it is being made.
func (p *posts) stop(id string) {
	p.mu.Lock()
	cancel := p.byID[id]
	delete(p.byID, id)
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// close ends all calls and waits for them.
func (p *posts) close() {
	p.mu.Lock()
	p.closed = true
	for _, cancel := range p.byID {
		cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
}
