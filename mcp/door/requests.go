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
	if !who.Expires.IsZero() {
		r.expiry = time.AfterFunc(time.Until(who.Expires), func() {
			cancel(protocol.Errorf(protocol.CredentialInvalid, "the credential has expired"))
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
			r.cancel(protocol.Errorf(protocol.CredentialInvalid, "the credential is no longer valid"))
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
