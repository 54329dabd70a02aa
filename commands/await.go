package commands

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// Await is Handle for callers that write the response at once: take is called
// once, on any goroutine and before Await returns, and must not block. The response
// is valid until take returns, so that the call can be used again.
func (r *Router) Await(ctx context.Context, in Inbound, take func(*protocol.Response)) {
	r.await(ctx, in, take, abandonable)
}

// Awaiting is the number of goroutines that wait for the responses to their requests.
func (r *Router) Awaiting() int { return int(r.awaiting.Load()) }

// abandonable reports whether a call ends when its caller does not wait any more.
func abandonable(c *Call) bool { return c.command != nil && c.command.Abandonable }

// await waits for the response to a request until ctx ends. Then it abandons the call
// if abandon says so, and take gets the error of ctx.
func (r *Router) await(ctx context.Context, in Inbound, take func(*protocol.Response), abandon func(*Call) bool) {
	w := r.Begin(in, take)
	select {
	case <-w.Done():
		w.End()
	case <-ctx.Done():
		w.leave(ctx.Err(), abandon)
	}
}

// A Waiting is the wait of a caller for the response to a request. It ends once, by
// [Waiting.End] or by [Waiting.Leave].
type Waiting struct {
	router *Router
	call   *Call
	waiter *waiter
}

// Begin submits a request for a caller that waits where it likes, and does not wait
// itself. For take it is like [Router.Await]: take is called before the wait has ended.
func (r *Router) Begin(in Inbound, take func(*protocol.Response)) Waiting {
	r.awaiting.Add(1)
	w := waiters.Get().(*waiter)
	w.take = take
	in.kept, in.Batched = true, true
	c := r.submit(in, w.reply)
	r.flushWithOthers(c)
	return Waiting{r, c, w}
}

// Done returns a channel that gets one value, when take has returned.
func (w Waiting) Done() <-chan struct{} { return w.waiter.done }

// End ends the wait of a caller that has got the value of Done.
func (w Waiting) End() {
	w.router.awaiting.Add(-1)
	w.call.Release()
	w.waiter.take = nil
	w.waiter.over.Store(false)
	waiters.Put(w.waiter)
}

// Leave ends the wait before there is a response, as the end of its context does in
// [Router.AwaitWithin]: take gets the error why, unless the response comes at this moment.
func (w Waiting) Leave(why error) { w.leave(why, func(*Call) bool { return true }) }

func (w Waiting) leave(why error, abandon func(*Call) bool) {
	if w.waiter.over.Swap(true) {
		<-w.waiter.done
		w.End()
		return
	}
	r, c := w.router, w.call
	r.awaiting.Add(-1)
	if abandon(c) {
		r.abandon(c)
	}
	resp := c.request.Answer(r.opts.BridgeID, r.opts.Now())
	c.Release()
	resp.Err = protocol.AsError(why)
	w.waiter.take(resp)
}

// flushWithOthers lets a call go on that its caller waits for, after other requests
// that have arrived were read too: so their claims are written together.
func (r *Router) flushWithOthers(c *Call) {
	if c.command != nil && c.command.async {
		runtime.Gosched()
		r.Flush()
	}
}

// A waiter is one caller in [Router.Await]. It is used again unless the caller has left.
type waiter struct {
	take  func(*protocol.Response)
	over  atomic.Bool // it is answered, or the caller has left
	done  chan struct{}
	reply func(*protocol.Response) // its own
}

var waiters = sync.Pool{New: func() any {
	w := &waiter{done: make(chan struct{}, 1)}
	w.reply = w.answered
	return w
}}

func (w *waiter) answered(resp *protocol.Response) {
	if !w.over.Swap(true) {
		w.take(resp)
		w.done <- struct{}{}
	}
}
