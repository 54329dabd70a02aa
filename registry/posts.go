package registry

import (
	"context"
	"sync"
)

// maxPosts is how many standing calls are made over HTTP at once.
const maxPosts = 64

// Posts are the standing calls that are made over HTTP.
type posts struct {
	mu      sync.Mutex
	closed  bool
	byID    map[string]context.CancelFunc
	slots   chan struct{}
	running sync.WaitGroup
}

func newPosts() *posts {
	return &posts{byID: make(map[string]context.CancelFunc), slots: make(chan struct{}, maxPosts)}
}

// start makes a call in the background until its deadline, when there is room.
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
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
			call(ctx)
		case <-ctx.Done():
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
