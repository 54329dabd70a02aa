package mcp

import (
	"context"
	"sync"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// requests are the HTTP requests under way, streams among them, so that they
// can be bounded, and ended when a credential is.
type requests struct {
	grants grant.Authority
	places *fair.Semaphore

	mu     sync.Mutex
	open   map[*request]struct{}
	closed bool
}

// A request is the context of its work.
type request struct {
	context.Context
	who    *protocol.Principal
	party  fair.Party
	cancel context.CancelCauseFunc
	forget func() bool // about the end of the credential

	mu    sync.Mutex
	ended bool
	also  context.CancelFunc // of work that outlives the connection
}

type requestKey struct{}

// Value implements [context.Context].
func (r *request) Value(key any) any {
	switch key.(type) {
	case requestKey:
		return r
	case principalKey:
		return r.who
	}
	return r.Context.Value(key)
}

// requestOf is the request that a context is of.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// end ends a request before its time.
func (r *request) end(why error) {
	r.mu.Lock()
	r.ended = true
	also := r.also
	r.mu.Unlock()
	r.cancel(why)
	if also != nil {
		also()
	}
}

// onEnd has cancel called too when the request is ended before its time, and
// reports whether that has not happened yet.
func (r *request) onEnd(cancel context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.also = cancel
	return !r.ended
}

func newRequests(most int, grants grant.Authority) *requests {
	return &requests{
		grants: grants,
		places: fair.New(fair.Options{What: "MCP requests under way", Capacity: int64(most)}),
		open:   make(map[*request]struct{}),
	}
}

// begin takes a request in, unless there are too many. Its context ends when
// the principal's credential does.
func (rs *requests) begin(ctx context.Context, who *protocol.Principal) (_ context.Context, done func(), err *protocol.Error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return nil, nil, protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down")
	}
	party := fair.Of(who)
	if full := rs.places.TryAcquire(party, 1); full != nil {
		return nil, nil, full
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{Context: ctx, who: who, party: party, cancel: cancel}
	r.forget = rs.grants.OnEnd(grant.Of(who), r.end)
	rs.open[r] = struct{}{}
	return r, func() { rs.finish(r) }, nil
}

func (rs *requests) finish(r *request) {
	r.forget()
	r.cancel(nil)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, r)
	rs.places.Release(r.party, 1)
}

// close ends all requests and takes no more.
func (rs *requests) close() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.closed = true
	for r := range rs.open {
		r.end(protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down"))
	}
}
