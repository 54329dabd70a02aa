package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A request is what agents are asked, whichever of them it will be.
type request struct {
	command string
	params  json.RawMessage
	call    *commands.Call
	again   bool // running it twice is as good as once
}

// An asking is a request that an agent has, and who is to hear the answer.
type asking struct {
	request
	exchange
	service *Service
	ctx     context.Context
	then    asker
	watch   commands.Watch
	stop    func() bool // following the context, nil if watch does
	end     func()      // the span, nil without one
}

// An asker takes what became of a request to an agent. The response is good
// only until it returns. If it panics it is told again.
type asker interface {
	answered(response *protocol.Response, e *exchange, f *failure)
}

// An askerFunc is a function that is an asker.
type askerFunc func(response *protocol.Response, e *exchange, f *failure)

func (f askerFunc) answered(response *protocol.Response, e *exchange, failed *failure) {
	f(response, e, failed)
}

// ask sends a request to the least busy of some peers, by whatever way there is,
// and hands what becomes of it to then, possibly before it returns. When ctx
// ends first, the peer is told to stop. The asking is the room for it, and is
// for this request alone.
func (s *Service) ask(ctx context.Context, a *asking, peers []peer, r request, then asker) {
	a.request, a.service, a.ctx, a.then = r, s, ctx, then
	a.id, a.party = s.newID(), a
	var name func(whom string)
	if s.opts.Tracer != nil {
		a.ctx, name, a.end = s.spanOf(ctx, "agent request", "aibridge.agent", a.id)
	}
	a.follow(ctx)
	s.exchanges.enter(&a.exchange, peers)
	if name != nil {
		name(a.target().id)
	}
	if f := s.send(a.ctx, &a.exchange, r); f != nil {
		if s.exchanges.withdraw(&a.exchange) {
			a.settle(nil, f)
		}
	} else if ctx.Err() != nil { // perhaps since before the exchange was open
		a.giveUp()
	}
}

// follow has the request given up when ctx ends.
func (a *asking) follow(ctx context.Context) {
	if own, ok := ctx.(commands.Watchable); ok {
		own.Watch(&a.watch, a)
		return
	}
	a.stop = context.AfterFunc(ctx, a.giveUp)
}

// Ended is told that the context has.
func (a *asking) Ended() { a.giveUp() }

// event passes on what the agent says before it answers.
func (a *asking) event(name string, data []byte) {
	a.call.Emit(name, json.RawMessage(bytes.Clone(data)))
}

// giveUp ends the request because its context has ended.
func (a *asking) giveUp() { a.service.exchanges.end(&a.exchange, outcome{kind: abandoned}) }

// hear takes the end of the exchange. Who brings it is not to be hurt by what
// comes of it.
func (a *asking) hear(o outcome) {
	defer func() {
		if p := recover(); p != nil {
			cause := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			a.then.answered(nil, &a.exchange, &failure{err: protocol.Wrap(protocol.Internal, cause, protocol.Internal.String())})
		}
	}()
	if o.kind == abandoned {
		cause := context.Cause(a.ctx)
		a.service.cancel(a.ctx, &a.exchange, a.request, protocol.CodeOf(cause).String())
		a.settle(nil, a.target().gaveUp(cause))
		return
	}
	a.settle(o.judge(a.target()))
}

func (a *asking) settle(response *protocol.Response, f *failure) {
	if a.stop != nil {
		a.stop()
	} else {
		a.watch.Stop()
	}
	if a.end != nil {
		a.end()
	}
	a.then.answered(response, &a.exchange, f)
}

// send has the request delivered.
func (s *Service) send(ctx context.Context, e *exchange, r request) *failure {
	now := time.Now()
	left := r.call.Deadline.Sub(now)
	if left <= 0 {
		return e.target().gaveUp(context.DeadlineExceeded)
	}
	w, ok := s.wayTo(e.peer)
	if !ok {
		return e.target().unreachable()
	}
	envelope := s.envelope(e.id, r.command, r.params, r.call, now)
	envelope.Extension = r.call.VendorData()
	envelope.Metadata.Timeout = max(left.Truncate(time.Millisecond), time.Millisecond)
	envelope.Metadata.Events = true
	delivered, err := s.deliver(ctx, e, w, &delivery{&envelope, left, s.marks.of(r.call.Principal), r.again})
	switch {
	case err != nil:
		return &failure{err: protocol.AsError(err), again: always}
	case !delivered:
		// A session that just went may still get it when it comes back.
		s.cancel(ctx, e, r, "not delivered in time")
		return e.target().unreachable()
	}
	return nil
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

// cancel asks an agent to stop working on an exchange. The agent need not
// answer. A skill that is called without one sees that its caller hangs up.
func (s *Service) cancel(ctx context.Context, e *exchange, r request, reason string) {
	if e.agent == nil {
		return
	}
	params, err := json.Marshal(cancelParams{TaskID: e.id, Reason: reason})
	if err != nil {
		s.log.Error("cancellation not rendered", "error", err)
		return
	}
	w, ok := s.wayTo(e.peer)
	if !ok {
		w = way{mail: s.mail(e.agent.ID)} // where its session may get it later
	}
	envelope := s.envelope(s.newID(), "task.cancel", params, r.call, time.Now())
	told := &exchange{id: e.id, peer: e.peer} // of which nothing more is expected
	if _, err := s.deliver(context.WithoutCancel(ctx), told, w, &delivery{envelope: &envelope, expiry: cancelExpiry}); err != nil {
		s.log.Debug("cancellation not sent", "agent", e.agent.ID, "trace", r.call.TraceID, "error", err)
	}
}

// cancelParams are the params of the task.cancel an agent gets: the id of the
// request it is about.
type cancelParams struct {
	TaskID string `json:"task_id"`
	Reason string `json:"reason"`
}

// cancelExpiry is how long a cancellation is worth delivering.
const cancelExpiry = time.Minute
