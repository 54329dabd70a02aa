package ask

import (
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/fair"
)

// The greatest numbers of concurrent and of queued calls of endpoints without a waiting
// caller.
const (
	maxEndpointCalls = 64
	maxWaiting       = 16384
)

// endpointCalls holds the requests that are being sent to endpoints, each on a goroutine
// of its own.
type endpointCalls struct {
	service *Service
	places  *fair.Semaphore // of calls without a waiting caller
	ctx     context.Context // of all of them
	cancel  context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

func newEndpointCalls(s *Service) *endpointCalls {
	p := &endpointCalls{service: s, places: fair.New(fair.Options{What: "calls over HTTP", Capacity: maxEndpointCalls, Waiting: maxWaiting})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// start posts a request until it expires or its exchange has ended. A request
// that is being posted is not posted twice. It reports false once posts are
// closed.
func (p *endpointCalls) start(ctx context.Context, e *exchange, endpoints []string, d *delivery) bool {
	patience := d.expiry
	if !e.durable {
		patience += time.Second // a waiting caller gives up first, and cancels at the agent
	}
	if !p.enter() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	if !p.service.exchanges.calling(e, cancel) {
		cancel()
		p.running.Done()
		return true
	}
	stop := context.AfterFunc(p.ctx, cancel)
	request := &endpointCall{service: p.service, exchange: e, endpoints: endpoints, envelope: d.envelope.Append(nil), caller: d.caller, again: d.again}
	go func() {
		defer p.running.Done()
		defer cancel()
		defer stop()
		if e.durable {
			if !p.admit(ctx, e) {
				return
			}
			defer p.places.Release(e.caller, 1)
		}
		request.run(ctx)
	}()
	return true
}

func (p *endpointCalls) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.running.Add(1)
	}
	return !p.closed
}

// admit waits for a place for a call without a waiting caller. Without a place the
// exchange ends.
func (p *endpointCalls) admit(ctx context.Context, e *exchange) bool {
	err := p.places.Acquire(ctx, e.caller, 1)
	if err != nil {
		f := e.target().gaveUp(err)
		p.service.exchanges.end(e, outcome{failure: f})
	}
	return err == nil
}

// close ends all posts and waits for them.
func (p *endpointCalls) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.running.Wait()
}

// calling notes that an endpoint is being called, and how to hang up. It reports
// false if one is already, or if the exchange has ended.
func (x *exchanges) calling(e *exchange, hangUp context.CancelFunc) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.hangUp != nil || e.done.Load() {
		return false
	}
	e.hangUp = hangUp
	return true
}

// at notes which endpoint is called.
func (x *exchanges) at(e *exchange, endpoint string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open.has(e) {
		e.endpoint = endpoint
	}
}
