package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// take is the part of the pipeline before a request waits for a worker: decode
// → version → deadline → find. The fields it sets do not change afterwards, for
// the deadline may answer a call at any moment. With an error the call still
// holds enough for an answer.
func (r *Router) take(in Inbound, reply func(*protocol.Response)) (c *Call, err error) {
	c = calls.Get().(*Call)
	c.holds.Store(1)
	c.Principal, c.Door, c.Client, c.Line, c.Address, c.Depth = in.Principal, in.Door, in.Client, in.Line, in.Address, in.Depth
	c.Ask = in.Ask
	c.held, c.confirm, c.router, c.reply, c.free, c.audience = in.Held, in.Confirm, r, reply, in.Free, in.Audience
	if in.Arrived == 0 {
		in.Arrived = r.opts.Clock.Steady()
	}
	c.arrived, c.steady = r.momentAt(in.Arrived)
	c.ctx = &c.own.callContext
	c.own.parent = r.traceContext(in.Traceparent)
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		if c.request == nil {
			c.request = &protocol.Request{}
		}
	}()
	if c.plan = r.recall(&in, c); c.plan != nil {
		c.request = &c.own.request
	} else {
		c.request, err = r.parse(in, &c.own.request)
		if in.Template != nil && err == nil {
			c.plan, c.inner = in.Template.recall(r, c.request)
		}
	}
	req := c.request
	c.Command, c.RequestID = req.Command, req.ID
	c.SenderID, c.TraceID = req.Metadata.SenderID, req.Metadata.TraceID
	c.Priority, c.Extension = req.Metadata.Priority, req.Extension
	switch {
	case err != nil:
		return c, err
	case in.Principal == nil:
		return c, protocol.Errorf(protocol.NotAuthenticated, "not authenticated: show an API key, a token or a certificate")
	}
	if c.claims = in.Claim != ""; c.claims {
		c.SenderID = in.Claim
	}
	if c.SenderID == "" {
		c.SenderID = in.Principal.ID
	}
	if req.Metadata.Events {
		c.listen = in.Emit
	}
	if err := c.schedule(in); err != nil {
		return c, err
	}
	if c.plan != nil {
		c.command = c.plan.command
		r.ledger.approach(c)
		return c, nil
	}
	if err := r.find(c); err != nil {
		return c, err
	}
	if c.command.Traced && c.TraceID == "" {
		c.TraceID = protocol.NewID()
		req.Metadata.TraceID = c.TraceID
	}
	if c.command.Streams && asksToStream(req.Params) {
		c.listen = in.Emit
	}
	return c, nil
}

// asksToStream reports whether params ask for events, as metadata.events does.
// Other faults of them are found later.
func asksToStream(params []byte) bool {
	if !bytes.Contains(params, []byte(`"stream"`)) && bytes.IndexByte(params, '\\') < 0 {
		return false // as most do not name it, in any case
	}
	var p struct {
		Stream bool `json:"stream"`
	}
	return json.Unmarshal(params, &p) == nil && p.Stream
}

// parse reads a request, into own unless an extension does.
func (r *Router) parse(in Inbound, own *protocol.Request) (*protocol.Request, error) {
	if in.Request != nil {
		*own = *in.Request
		return own, r.complete(own)
	}
	for _, p := range r.opts.Extensions.Parsers {
		req, err := p.Parse(in.Body, in.Door)
		switch {
		case req != nil && err == nil:
			return req, r.complete(req)
		case req != nil:
			return req, err
		case err != nil:
			return &protocol.Request{}, err
		}
	}
	if in.Matched {
		return own, own.DecodeMatched(in.Body, r.opts.Limits)
	}
	return own, own.Decode(in.Body, r.opts.Limits)
}

// complete fills in the fields on which the pipeline relies, of a request that
// was not decoded here.
func (r *Router) complete(req *protocol.Request) error {
	if req.ID == "" {
		return protocol.Errorf(protocol.MalformedEnvelope, "id: is missing; send one with every request")
	}
	if req.Metadata.Timeout <= 0 {
		req.Metadata.Timeout = protocol.DefaultTimeout
	}
	req.Metadata.Timeout = min(req.Metadata.Timeout, protocol.MaxTimeout)
	if len(req.Params) == 0 {
		req.Params = []byte("{}")
	}
	return protocol.CheckJSON(req.Params, r.opts.Limits)
}

// work runs a call that has a slot, and after it the next ones in the same
// slot.
func (r *Router) work(c *Call) {
	for c != nil {
		r.process(c)
		if c = c.handBack(); c == nil {
			c = r.rest()
		}
	}
}

// maxResting is the number of goroutines that wait for work. Their stacks have
// already grown as calls need, which saves the growing of new ones.
const maxResting = 64

// rest waits for a call to run, or returns nil if enough others do.
func (r *Router) rest() *Call {
	defer r.resting.Add(-1)
	if r.resting.Add(1) > maxResting {
		return nil
	}
	select {
	case c := <-r.idle:
		return c
	case <-r.closed:
		return nil
	}
}

// process takes a call that was found to its end: params → authorize →
// deduplicate → run → answer.
func (r *Router) process(c *Call) {
	if c.answered.Load() { // its time ran out while it waited for a slot
		r.inFlight.leave(c)
		return
	}
	out, settled := r.attempt(c)
	if settled {
		r.conclude(c, out)
	}
}

// attempt does it with a net underneath. It reports false if another call
// will settle this one.
func (r *Router) attempt(c *Call) (out outcome, settled bool) {
	defer func() {
		if p := recover(); p != nil {
			out, settled = outcome{err: panicked(p)}, true
		}
	}()
	run, async, err := c.invocation()
	if err != nil {
		return refused(err), true
	}
	if async && c.inline { // beginning a task takes its time
		c.inline = false
		r.slots.start(c.Priority, c)
		return outcome{}, false
	}
	if c.inline && r.records(c) && r.backlog.behind(c) {
		return outcome{}, false
	}
	on := run.target()
	if err := r.admit(c, on); err != nil {
		if c.inline && protocol.CodeOf(err) == protocol.Busy {
			r.postpone(c)
			return outcome{}, false
		}
		return refused(err), true
	}
	if err := r.authorize(c, on); err != nil {
		return refused(err), true
	}
	answer, mine, settled := r.deduplicate(c)
	if !mine {
		return answer, settled
	}
	if run, ok := run.(unhurried); ok && !async && r.goesOn(c) {
		r.goOn(c, run)
		return outcome{}, false
	}
	if err := r.reach(c); err != nil {
		c.untried = true
		return refused(err), true
	}
	if err := r.claim(c); err != nil {
		if taken := (*Taken)(nil); errors.As(err, &taken) {
			return r.taken(c.claim(), taken), true
		}
		c.untried = true
		return refused(err), true
	}
	if async {
		return r.background(c, run), true
	}
	return r.execute(c.ctx, c, run), true
}

// A panicError is the value of a panic in a handler. It goes to the log only.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func panicked(value any) *protocol.Error {
	return protocol.Wrap(protocol.Internal, &panicError{value, debug.Stack()}, protocol.Internal.String())
}

func refused(err error) outcome { return outcome{err: asError(err)} }

// asError is protocol.AsError for errors that are mostly nil.
func asError(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	return protocol.AsError(err)
}

// find looks the command up, under the name it was declared with.
func (r *Router) find(c *Call) error {
	cmd, ok := r.set.Find(c.Command)
	if !ok {
		cmd, ok = r.agents.find(c.Principal.Space, c.Command)
	}
	if !ok {
		err := protocol.Errorf(protocol.UnknownCommand, "unknown command %.100q", c.Command)
		if meant, ok := r.Nearest(c.Principal.Space, c.Command); ok {
			return err.With("did_you_mean", meant)
		}
		err.Message += "; bridge.describe lists those there are"
		return err
	}
	if cmd.Name != c.Command {
		c.notices = append(c.notices, fmt.Sprintf("%s is deprecated, use %s", c.Command, cmd.Name))
	}
	c.command, c.Command = cmd, cmd.Name
	return nil
}

// authorize fails if a call may not be run.
func (r *Router) authorize(c *Call, on Resource) error {
	if c.SenderID != c.Principal.ID && !c.claims {
		if err := r.opts.Authorizer.ActFor(c.ctx, c.Principal, c.SenderID); err != nil {
			return err
		}
	}
	if c.plan != nil {
		return r.permit(c, on)
	}
	return r.allow(c.ctx, c, c.command.Action, on)
}

// allow fails if a call may not do an action, be it its command or a part of it.
func (r *Router) allow(ctx context.Context, c *Call, action string, on Resource) error {
	if err := r.opts.Credentials.Check(c.Principal); err != nil {
		return err
	}
	if r.judge != nil {
		if err := r.judge.AuthorizeCall(c, action, on); err != nil {
			return err
		}
	} else if err := r.opts.Authorizer.Authorize(ctx, c.Principal, action, on); err != nil {
		return err
	}
	for _, p := range r.opts.Extensions.Permissions {
		if err := p.Check(ctx, c, action, on); err != nil {
			return err
		}
	}
	return nil
}

// deduplicate reports whether the request is the call's to execute. If not,
// it returns the answer, or that the call will be settled by another.
func (r *Router) deduplicate(c *Call) (answer outcome, mine, settled bool) {
	v, e, answer := r.ledger.begin(c, r.prints.of(c.Command, c.digest))
	r.metrics.deduplicated(v)
	switch v {
	case execute:
		c.entry = e
	case join:
		return outcome{}, false, false
	case replay:
		answer.repeat = true
		return answer, false, true
	case conflict:
		return refused(protocol.Errorf(protocol.IDReused, "the id was used for another request; send a new id with a new request")), false, true
	case unknown:
		return refused(protocol.Errorf(protocol.OutcomeUnknown, "the request was taken up before and its outcome is unknown; look before you send it again with a new id")), false, true
	}
	return outcome{}, true, true
}

// claims reports whether requests for a command are claimed before they run:
// those that act on the world, and where several processes run commands those
// that write, too. The repeat of a routine one changes nothing.
func (r *Router) claims(cmd *Command) bool {
	switch cmd.Effect {
	case Act:
		return r.opts.Claims != nil
	case Write:
		return r.shared != nil && !cmd.Routine
	}
	return false
}

// claim makes sure that a request is remembered by the next process, and known to
// others. It fails when the call's time is over: nothing is executed late; and when
// the caller does not want it any more.
func (r *Router) claim(c *Call) error {
	if r.claims(c.command) {
		if err := r.waitForClaim(c); err != nil {
			return err
		}
	}
	return c.confirmed()
}

// confirmed fails if a call is not to be run after all: it would be late, or the
// caller does not want it any more.
func (c *Call) confirmed() error {
	if c.confirm != nil {
		if err := c.confirm(); err != nil {
			return err
		}
	}
	return c.ctx.Err()
}

func (r *Router) waitForClaim(c *Call) error {
	c.park()
	defer c.unpark(c.ctx)
	err := r.opts.Claims.Claim(c.ctx, c.claim())
	c.first = err == nil && r.shared != nil
	return err
}

// execute runs the handler inside the message processors.
func (r *Router) execute(ctx context.Context, c *Call, run invocation) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = outcome{err: panicked(p)}
		}
	}()
	r.started(c)
	at := r.revision()
	result, err := within(ctx, r.opts.Extensions.Processors, c, run)
	if err != nil {
		result, err = r.again(ctx, c, run, at, result, err)
	}
	return outcome{result: result, err: asError(err), warnings: c.warned()}
}

// within runs the handler inside the remaining processors.
func within(ctx context.Context, left []MessageProcessor, c *Call, run invocation) (json.RawMessage, error) {
	if len(left) == 0 {
		return run.run(ctx, c)
	}
	next := func(ctx context.Context) (json.RawMessage, error) { return within(ctx, left[1:], c, run) }
	return left[0].Process(ctx, c, c.request.Params, next)
}

// background hands a call to the tasks and answers with the task's id.
func (r *Router) background(c *Call, run invocation) outcome {
	if r.opts.Tasks == nil {
		return refused(protocol.InvalidParam("async", "is not available: this bridge runs no tasks"))
	}
	d := c.detached()
	given := grant.Of(c.Principal)
	r.started(c)
	var id protocol.TaskID
	err := c.Park(c.ctx, func(ctx context.Context) (err error) {
		id, err = r.opts.Tasks.Start(ctx, d, func(ctx context.Context) (json.RawMessage, error) {
			ctx, end := grant.While(ctx, r.opts.Credentials, given)
			defer end()
			return r.runDetached(ctx, d, run)
		})
		return err
	})
	if err != nil {
		return refused(err)
	}
	result := protocol.AppendString([]byte(`{"task_id":`), string(id))
	return outcome{result: append(result, '}')}
}

func (r *Router) runDetached(ctx context.Context, d *Call, run invocation) (json.RawMessage, error) {
	if !r.slots.acquire(ctx, d.Priority) {
		return nil, context.Cause(ctx)
	}
	d.holdSlot()
	defer d.yield()
	out := r.execute(ctx, d, run)
	if why := grantEnded(ctx); why != nil && out.err != nil {
		out.err = why
	}
	out.err = r.seen(d, out.err)
	r.audit(d, out, auditAsync, r.opts.Now())
	if err := out.err; err != nil { // not a nil *Error in an error
		return out.result, err
	}
	return out.result, nil
}
