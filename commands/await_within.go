package commands

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// AwaitWithin is [Router.Await] for a call that is of use only as long as ctx lasts:
// when that ends the call is cancelled, unless a repeat of the request still waits for
// it.
func (r *Router) AwaitWithin(ctx context.Context, in Inbound, take func(*protocol.Response)) {
	r.await(ctx, in, take, func(*Call) bool { return true })
}
