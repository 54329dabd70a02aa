package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// An attempt is a request that one peer has.
type attempt struct {
	exchange
	request *Request
	service *Service
	ctx     context.Context
	watch   commands.Watch
	stop    func() bool // following the context, nil if watch does
	end     func()      // the span, nil without one
}

// try sends a request to the least busy of some peers. The attempt is the room
// for it.
func (s *Service) try(a *attempt, r *Request, peers []Peer) {
	r.Call.Hold() // the answer may come before this returns
	defer r.Call.Release()
	a.request, a.service, a.ctx = r, s, r.ctx
	a.id, a.waiter, a.call = s.opts.NewID(), a, r.Call
	var name func(whom string)
	if s.opts.Tracer != nil {
		a.ctx, name, a.end = s.spanOf(r.ctx, "agent request", "aibridge.agent", a.id)
	}
	a.follow(r.ctx)
	s.exchanges.enter(&a.exchange, peers)
	if name != nil {
		name(a.target().id)
	}
	if f := s.send(a); f != nil {
		if s.exchanges.withdraw(&a.exchange) {
			a.settle(nil, f)
		}
	} else if r.ctx.Err() != nil { // perhaps since before the exchange was open
		a.Ended()
	}
}

// follow has the attempt given up when ctx ends.
func (a *attempt) follow(ctx context.Context) {
	if own, ok := ctx.(commands.Watchable); ok {
		own.Watch(&a.watch, a)
		return
	}
	a.stop = context.AfterFunc(ctx, a.Ended)
}

// Ended gives the attempt up because its context has ended.
func (a *attempt) Ended() { a.service.exchanges.end(&a.exchange, outcome{}) }

// event passes on an event of the agent before its answer.
func (a *attempt) event(name string, data []byte) {
	a.request.Call.Emit(name, json.RawMessage(bytes.Clone(data)))
}

// hear handles the end of the exchange. A panic of the listener does not reach the
// goroutine that brings the end.
func (a *attempt) hear(o outcome) {
	defer func() {
		if p := recover(); p != nil {
			cause := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			a.request.fail(&failure{err: protocol.Wrap(protocol.Internal, cause, protocol.Internal.String()), open: true})
		}
	}()
	if o.abandoned() {
		cause := context.Cause(a.ctx)
		a.service.cancel(a.ctx, &a.exchange, a.request.Call, protocol.CodeOf(cause).String())
		if errors.Is(cause, context.DeadlineExceeded) || protocol.CodeOf(cause) == protocol.TimedOut {
			a.service.complain(Sender{Agent: a.Agent}, Silent, fmt.Sprintf("%s, id %q", a.request.Command, a.id))
		}
		a.settle(nil, a.target().gaveUp(cause))
		return
	}
	a.settle(o.result, o.failure)
}

func (a *attempt) settle(result json.RawMessage, f *failure) {
	if a.stop != nil {
		a.stop()
	} else {
		a.request.alone = a.watch.Stop() && a == &a.request.first && a.line == nil && a.endpoint == ""
	}
	if a.end != nil {
		a.end()
	}
	a.request.ended(a, result, f)
}

// send has the request delivered.
func (s *Service) send(a *attempt) *failure {
	r := a.request
	now := r.Began
	if now.IsZero() || a != &r.first { // or it has tried another agent since
		now = time.Now()
	}
	left := r.Call.Deadline.Sub(now)
	if left <= 0 {
		return a.target().gaveUp(context.DeadlineExceeded)
	}
	w, ok := s.wayOf(a)
	if !ok {
		return a.target().unreachable()
	}
	d := delivery{envelope: s.envelope(a.id, r.Command, r.Params, r.Call, now), expiry: left, caller: s.callers.of(r.Call.Principal), again: r.Idempotent}
	d.envelope.Extension = r.Call.VendorData()
	if a.Agent != nil && r.Call.Principal != nil {
		d.envelope.Metadata.SenderID = s.sender(a.Agent.Key(), r.Call.Principal.Party())
	}
	d.envelope.Metadata.Timeout = max(left.Truncate(time.Millisecond), time.Millisecond)
	d.envelope.Metadata.Events = true
	delivered, err := s.deliver(a.ctx, &a.exchange, w, &d)
	switch {
	case err != nil:
		return &failure{err: protocol.AsError(err), again: always}
	case !delivered && w.Bridge == (Bridge{}) && w.Topics.Request != "":
		s.cancel(a.ctx, &a.exchange, r.Call, "not delivered in time")
		return a.target().justLeft()
	case !delivered:
		return a.target().unreachable()
	}
	return nil
}

// wayOf returns the way to the peer of an attempt with an open exchange.
func (s *Service) wayOf(a *attempt) (w Way, ok bool) {
	if a == &a.request.first {
		if guide, ok := a.request.Callee.(Guide); ok {
			if known := guide.Way(); known != nil {
				return *known, true
			}
		}
	}
	return s.wayTo(a.Peer)
}

// envelope begins a request to an agent on behalf of a call.
func (s *Service) envelope(id, command string, params []byte, call *commands.Call, now time.Time) protocol.Request {
	return protocol.Request{
		Version:   protocol.Version,
		ID:        id,
		Timestamp: now.UnixMilli(),
		Command:   command,
		Params:    params,
		Metadata: protocol.Metadata{
			SenderID: s.opts.BridgeID,
			TraceID:  call.TraceID,
			Priority: call.Priority,
		},
	}
}
