package commands

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// HandleWithin is [Router.Handle] for a call that is of use only as long as ctx
// lasts: when that ends the call is cancelled, unless somebody who asked the
// same still waits for it.
func (r *Router) HandleWithin(ctx context.Context, in Inbound) *protocol.Response {
	answered := make(chan *protocol.Response, 1)
	c := r.submit(in, func(resp *protocol.Response) { answered <- kept(resp) })
	select {
	case resp := <-answered:
		return resp
	case <-ctx.Done():
	}
	r.abandon(c)
	resp := c.request.Answer(r.opts.BridgeID, r.opts.Now())
	resp.Err = protocol.AsError(ctx.Err())
	return resp
}
