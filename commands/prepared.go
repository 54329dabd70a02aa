package commands

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Prepared is a command with all its params but the member params, for many calls that
// differ in that member alone. Their common work is done once (DESIGN.md).
type Prepared interface {
	// Target is the resource of these calls.
	Target() Resource
	// Begin starts a call as a [Starter] does, with the member that was left out,
	// a JSON object that is not checked yet. The result that done gets is JSON and
	// good until done returns. It reports false, and has done nothing, if the call
	// has to go the usual way. The memory that it keeps in a [Room] is used again.
	Begin(ctx context.Context, call *Call, params json.RawMessage, done func(json.RawMessage, error)) bool
}

// A Preparer prepares the part that calls with the same params share. It reports
// false for params whose calls go the usual way.
type Preparer[P any] func(params P) (Prepared, bool)

// NewPrepared declares a command like [NewAsync] whose calls can be prepared.
func NewPrepared[P, R any](spec Spec, start Starter[P, R], prepare Preparer[P]) Command {
	c := NewAsync(spec, start)
	c.prepare = func(params json.RawMessage) (Prepared, bool) {
		run, async, err := c.decode(params)
		if err != nil || async {
			return nil, false
		}
		return prepare(run.(*started[P, R]).params)
	}
	return c
}

// Plans are a connection's memory of its calls, for those that come again in the
// same form. The zero value remembers nothing yet. They serve one connection of
// one door, whose address stays.
type Plans struct{ known protocol.Patterns[*plan] }

// A plan is a command that was prepared, for calls of one form on a connection.
type plan struct {
	Prepared
	command   *Command
	target    Resource
	permitted atomic.Pointer[permission]
	caller    atomic.Pointer[planCaller]
	memo      *Memo // nil if the hole may be recorded as it is
}

// A planCaller is the principal who makes the calls of a plan, with what the ledger and
// claims know it by.
type planCaller struct {
	who  *protocol.Principal
	key  partyKey
	name string // of its party
}

// callerOf is the caller of a call with this plan.
func (p *plan) callerOf(c *Call) *planCaller {
	if known := p.caller.Load(); known != nil && known.who == c.Principal {
		return known
	}
	party := c.Principal.Party()
	now := &planCaller{c.Principal, c.router.ledger.party(party), party.String()}
	p.caller.Store(now)
	return now
}

// A permission is the authorizer's decision for the calls of a plan.
type permission struct {
	who   *protocol.Principal
	epoch uint64
	until time.Time
}

// A LastingAuthorizer is a [CallAuthorizer] that returns how long its permission
// holds.
type LastingAuthorizer interface {
	CallAuthorizer
	// Epoch moves before a change is acknowledged after which it may decide
	// otherwise. It is asked about every call.
	Epoch() uint64
	// AuthorizeUntil is AuthorizeCall that returns the time until which all calls
	// are allowed that come in the same way, for the same principal, action and
	// resource, while the epoch does not move. The zero time allows this call
	// alone.
	AuthorizeUntil(call *Call, action string, on Resource) (time.Time, error)
}

// prepares reports whether a router prepares calls: extensions may look at
// anything, and see every call.
func (o *RouterOptions) prepares() bool {
	x := &o.Extensions
	return len(x.Parsers) == 0 && len(x.Permissions) == 0 && len(x.Processors) == 0 && x.ErrorHandler == nil
}

// recall reads a request that has the form of an earlier one. The
// plan is nil if it is to be parsed.
func (r *Router) recall(in *Inbound, c *Call) *plan {
	if in.Plans == nil || r.lasting == nil {
		return nil
	}
	var fit protocol.Fit
	known := in.Plans.known.Fit(in.Body, &fit)
	if known == nil {
		return nil
	}
	r.metrics.prepared.Inc()
	c.inner = known.Fill(&c.own.request, &fit, c.spare.params)
	c.spare.params = c.own.request.Params
	return known.Notes
}

// remember makes a plan of a call without one for those that come in the same form.
func (r *Router) remember(in *Inbound, c *Call) {
	switch {
	case r.lasting == nil || c.command.prepare == nil:
	case in.Template != nil:
		in.Template.learn(r, c)
	case in.Plans != nil && in.Plans.known.Learns():
		p := r.planOf(c)
		if p == nil {
			in.Plans.known.Learn(nil, nil)
			return
		}
		in.Plans.known.Learn(protocol.RequestPattern(in.Body, r.opts.Limits, true), p)
	}
}

// planOf is a plan for calls like this one, nil if they have to go the usual way.
func (r *Router) planOf(c *Call) *plan {
	prepared, ok := c.command.prepare(c.request.Params)
	if !ok || c.request.Command != c.command.Name || c.command.Traced || c.command.Streams {
		return nil
	}
	p := &plan{Prepared: prepared, command: c.command, target: prepared.Target()}
	if !slices.Contains(c.command.loggable, "params") {
		p.memo = new(Memo)
	}
	return p
}

// permit is allow for a call with a plan.
func (r *Router) permit(c *Call, on Resource) error {
	if err := r.opts.Credentials.Check(c.Principal); err != nil {
		return err
	}
	epoch := r.lasting.Epoch()
	if p := c.plan.permitted.Load(); p != nil && p.who == c.Principal && p.epoch == epoch && c.arrived.Before(p.until) {
		return nil
	}
	until, err := r.lasting.AuthorizeUntil(c, c.command.Action, on)
	if err == nil && !until.IsZero() {
		c.plan.permitted.Store(&permission{c.Principal, epoch, until})
	}
	return err
}

// invocation is the handler with the parameters of the call, and whether they ask
// for a task.
func (c *Call) invocation() (run invocation, async bool, err error) {
	if c.plan != nil {
		c.prepared.call = c
		return &c.prepared, false, nil
	}
	return c.command.decode(c.request.Params)
}

// A preparedRun is an invocation by a plan.
type preparedRun struct{ call *Call }

func (p *preparedRun) target() Resource { return p.call.plan.target }

func (p *preparedRun) begin(ctx context.Context, call *Call, done func(json.RawMessage, error)) {
	if call.plan.Begin(ctx, call, call.inner, done) {
		return
	}
	run, _, err := call.command.decode(call.request.Params)
	if err != nil {
		done(nil, err)
		return
	}
	run.(unhurried).begin(ctx, call, done)
}

// run is for callers that wait.
func (p *preparedRun) run(ctx context.Context, call *Call) (json.RawMessage, error) {
	return awaited(ctx, call, p)
}
