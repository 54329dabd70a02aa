package commands

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/aibridge/aibridge/protocol"
)

// RawParams are the parameters as they came, byte for byte: what a sender that
// signs its requests has signed. They must not be changed.
func (c *Call) RawParams() json.RawMessage { return c.request.Params }

// Fail answers every call in flight whose principal matches with an error, and
// ends its context. It is for those who have just lost the right to an answer:
// a handler that goes on regardless does so for nobody. It returns how many
// calls were answered.
func (r *Router) Fail(match func(*protocol.Principal) bool, err *protocol.Error) int {
	n := 0
	for _, c := range r.flights.matching(match) {
		if c.answered.Load() {
			continue
		}
		own := *err // whoever handles errors may add to it
		own.Details = maps.Clone(err.Details)
		r.answer(c, outcome{err: r.seen(c, &own)}) // before the handler answers that it was cancelled
		c.own.end(context.Canceled)
		r.withdraw(c)
		if c.surrender() { // like a call whose time is over
			r.slots.release()
		}
		n++
	}
	return n
}
