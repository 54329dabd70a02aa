package commands

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/aibridge/aibridge/protocol"
)

// RawParams are the parameters byte for byte as they came, under the signature
// of a sender that signs its requests. They must not be changed.
func (c *Call) RawParams() json.RawMessage { return c.request.Params }

// Fail answers every call in flight for whose principal why returns an error,
// with that error, and ends its context. It serves principals that have just
// lost their rights: the result of a handler that goes on is dropped. It returns
// the number of calls answered.
func (r *Router) Fail(why func(*protocol.Principal) error) int {
	n := 0
	for c, err := range r.inFlight.matching(why) {
		if r.fail(c, asError(err)) {
			n++
		}
		c.Release()
	}
	return n
}

// fail answers a call in flight and ends it. It reports false if the call was
// answered before.
func (r *Router) fail(c *Call, err *protocol.Error) bool {
	if c.answered.Load() {
		return false
	}
	own := *err // an error handler may add to it
	own.Details = maps.Clone(err.Details)
	r.answer(c, outcome{err: r.seen(c, &own)}) // before the handler answers that it was cancelled
	c.own.end(context.Canceled)
	r.withdraw(c)
	if c.surrender() { // like a call whose time is over
		r.slots.release()
	}
	return true
}

// grantEnded is the reason why the grant has ended that a context was made for, nil if
// that is not why the context has.
func grantEnded(ctx context.Context) *protocol.Error {
	why, ok := errors.AsType[*protocol.Error](context.Cause(ctx))
	if !ok || ctx.Err() == nil {
		return nil
	}
	return why
}
