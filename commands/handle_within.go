package commands

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// HandleWithin is [Router.Handle] for a call that is of use only as long as ctx
// lasts: when that ends the call is cancelled, unless a repeat of the request still
// waits for it.
func (r *Router) HandleWithin(ctx context.Context, in Inbound) *protocol.Response {
	return r.handle(ctx, in, func(*Call) bool { return true })
}
