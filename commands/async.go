package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"sync/atomic"
)

// A Starter begins a command whose result comes from elsewhere, such as the
// answer of a device, and returns. It hands the results of a [Handler] to done,
// once, on any goroutine, and possibly before it returns; soon after ctx has
// ended.
//
// A call of such a command keeps no goroutine and no worker slot while it
// waits. It runs on the goroutine at hand: the one that brought the request,
// which for MQTT reads the connections of thousands, or the one that made its
// claim durable. So a Starter must not block.
type Starter[P, R any] func(ctx context.Context, call *Call, params P, done func(R, error))

// NewAsync declares a command like [New], with a handler that does not wait.
func NewAsync[P, R any](spec Spec, start Starter[P, R]) Command {
	form := &startForm[P, R]{start: start}
	command := form.declare(spec, reflect.TypeFor[P](), reflect.TypeFor[R](), form.fill)
	command.async = true
	return command
}

// An unhurried invocation need not be waited for. The result is good until
// done returns.
type unhurried interface {
	invocation
	begin(ctx context.Context, call *Call, done func(result json.RawMessage, err error))
}

// A startForm is the part that the calls of one command share that was declared with
// [NewAsync].
type startForm[P, R any] struct {
	codecs
	start Starter[P, R]
}

func (f *startForm[P, R]) fill(params json.RawMessage) (run invocation, async bool, err error) {
	s := &started[P, R]{startForm: f}
	async, err = f.params.Decode(params, &s.params)
	return s, async, err
}

// A started form is an invocation.
type started[P, R any] struct {
	*startForm[P, R]
	params P
	done   func(json.RawMessage, error)
	out    R
}

func (s *started[P, R]) target() Resource { return targetOf(&s.params) }

func (s *started[P, R]) begin(ctx context.Context, call *Call, done func(json.RawMessage, error)) {
	s.done = done
	s.start(ctx, call, s.params, s.ended)
}

// ended is called by the handler.
func (s *started[P, R]) ended(result R, err error) {
	if err != nil {
		s.done(s.written(&result, err))
		return
	}
	s.out = result
	s.result.EncodeFor(&s.out, func(written json.RawMessage, err error) {
		if err != nil {
			err = unwritable(err)
		}
		s.done(written, err)
	})
}

// run is begin for callers that wait: tasks and message processors.
func (s *started[P, R]) run(ctx context.Context, call *Call) (json.RawMessage, error) {
	return awaited(ctx, call, s)
}

// awaited begins an invocation and waits for its end.
func awaited(ctx context.Context, call *Call, run unhurried) (result json.RawMessage, err error) {
	ended := make(chan struct{})
	var once atomic.Bool
	run.begin(ctx, call, func(r json.RawMessage, e error) {
		if !once.Swap(true) {
			result, err = bytes.Clone(r), e
			close(ended)
		}
	})
	_ = call.Park(ctx, func(context.Context) error {
		<-ended
		return nil
	})
	return result, err
}

// A ClaimQueue is [Claims] that can be made without waiting. Claims that are
// enqueued one after the other are written together.
type ClaimQueue interface {
	Claims
	// Enqueue takes a claim and calls done, once and on any goroutine, when it
	// is durable or when it has failed; not before Flush is called.
	Enqueue(c Claim, done func(error))
	// Flush makes the enqueued claims durable. It does not wait for a disk.
	Flush()
}

// Flush lets calls go on that were submitted as [Inbound.Batched]. It does not
// block.
func (r *Router) Flush() {
	if r.queue != nil {
		r.queue.Flush()
	}
}

// goesOn reports whether a call can be run on the goroutine that brings it,
// because nothing on its way waits.
func (r *Router) goesOn(c *Call) bool {
	return c.command.async && c.request.Metadata.MinRevision == 0 && len(r.opts.Extensions.Processors) == 0 &&
		(r.queue != nil || !r.claims(c.command))
}

// goOn claims a call, if need be, and begins to run it, without waiting for
// either.
func (r *Router) goOn(c *Call, run unhurried) {
	c.run = run
	if c.spare.claimed == nil {
		c.spare.claimed, c.spare.finish = c.claimed, c.finish
	}
	if !r.claims(c.command) {
		c.claimed(nil)
		return
	}
	batched := c.batched // others may write the claim, and end the call
	r.queue.Enqueue(c.claim(), c.spare.claimed)
	if !batched {
		r.queue.Flush()
	}
}

// claimed begins to run a call once its claim is durable.
func (c *Call) claimed(err error) {
	defer func() {
		if p := recover(); p != nil {
			c.finish(nil, panicked(p))
		}
	}()
	if err == nil {
		err = c.confirmed()
	}
	if err != nil {
		c.untried = true
		c.finish(nil, err)
		return
	}
	c.router.started(c)
	c.run.begin(c.ctx, c, c.spare.finish)
}

// finish ends a call with the outcome of its handler. Only the first outcome
// counts.
func (c *Call) finish(result json.RawMessage, err error) {
	if c.finished.Swap(true) {
		return
	}
	c.router.conclude(c, outcome{result: result, err: asError(err), warnings: c.warned()})
	c.Release()
}

// claim is the claim by which later and other processes know the call.
func (c *Call) claim() Claim {
	prints, digest := &c.router.prints, c.digest
	if c.router.shared != nil {
		prints = &c.router.claimPrints
		digest = prints.digester.Digest(c.request.Params)
	}
	return Claim{
		Principal: c.party(), RequestID: c.RequestID,
		Hash: prints.claim(c.command, digest), Expires: c.arrived.Add(c.keep.Sub(c.steady)),
	}
}

// party names the party that calls.
func (c *Call) party() string {
	if c.plan != nil {
		return c.plan.callerOf(c).name
	}
	return c.Principal.Party().String()
}
