package door

import (
	"context"
	"sync"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// requests are the HTTP requests under way, streams among them, so that they
// can be bounded, and ended when a credential is.
type requests struct {
	clock  *clock.Clock
	places *fair.Semaphore

	mu     sync.Mutex
	open   map[*request]struct{}
	closed bool
}

type request struct {
	who    *protocol.Principal
	cancel context.CancelCauseFunc
	expiry func() // forgets that the credential expires

	mu    sync.Mutex
	ended bool
	also  context.CancelFunc // of what goes on without the connection
}

type requestKey struct{}

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

func newRequests(most int, c *clock.Clock) *requests {
	return &requests{
		clock:  c,
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
	if full := rs.places.TryAcquire(fair.Of(who), 1); full != nil {
		return nil, nil, full
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{who: who, cancel: cancel}
	ctx = context.WithValue(ctx, requestKey{}, r)
	if !who.Expires.IsZero() {
		r.expiry = rs.clock.At(who.Expires, func() {
			r.end(protocol.Errorf(protocol.CredentialInvalid, "the credential has expired"))
		})
	}
	rs.open[r] = struct{}{}
	return ctx, func() { rs.finish(r) }, nil
}

func (rs *requests) finish(r *request) {
	r.cancel(nil)
	if r.expiry != nil {
		r.expiry()
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, r)
	rs.places.Release(fair.Of(r.who), 1)
}

// end ends the requests of principals that match, and returns how many there
// were.
func (rs *requests) end(match func(*protocol.Principal) bool) int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	n := 0
	for r := range rs.open {
		if match(r.who) {
			r.end(protocol.Errorf(protocol.CredentialInvalid, "the credential is no longer valid"))
			n++
		}
	}
	return n
}

// close ends all requests and takes no more.
func (rs *requests) close() {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.end(func(*protocol.Principal) bool { return true })
}
