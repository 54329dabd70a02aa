package door

import (
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// requests are the HTTP requests under way, streams among them, so that they
// can be bounded, and ended when a credential is.
type requests struct {
	most int

	mu     sync.Mutex
	open   map[*request]struct{}
	by     map[string]int // of a party
	closed bool
}

type request struct {
	who    *protocol.Principal
	cancel context.CancelCauseFunc
	expiry *time.Timer

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

func newRequests(most int) *requests {
	return &requests{most: most, open: make(map[*request]struct{}), by: make(map[string]int)}
}

// begin takes a request in, unless there are too many. Its context ends when
// the principal's credential does.
func (rs *requests) begin(ctx context.Context, who *protocol.Principal) (_ context.Context, done func(), err *protocol.Error) {
	name := party(who)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	switch {
	case rs.closed:
		return nil, nil, protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down")
	case len(rs.open) >= rs.most:
		return nil, nil, protocol.BusyFor(time.Second, "too many MCP requests are under way")
	case rs.by[name] >= max(rs.most/4, 1):
		return nil, nil, protocol.BusyFor(time.Second, "too many of the caller's MCP requests are under way")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{who: who, cancel: cancel}
	ctx = context.WithValue(ctx, requestKey{}, r)
	if !who.Expires.IsZero() {
		r.expiry = time.AfterFunc(time.Until(who.Expires), func() {
			r.end(protocol.Errorf(protocol.CredentialInvalid, "the credential has expired"))
		})
	}
	rs.open[r] = struct{}{}
	rs.by[name]++
	return ctx, func() { rs.finish(r, name) }, nil
}

func (rs *requests) finish(r *request, name string) {
	r.cancel(nil)
	if r.expiry != nil {
		r.expiry.Stop()
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, r)
	if rs.by[name]--; rs.by[name] == 0 {
		delete(rs.by, name)
	}
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
