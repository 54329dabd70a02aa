package commands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// RouterOptions configure a [Router]. Zero fields mean the defaults.
type RouterOptions struct {
	Authorizer  Authorizer  // nil refuses everything
	Credentials Credentials // nil: all are good for ever
	Auditor     Auditor     // nil records nothing
	Limiter     Limiter     // nil bounds no caller
	Claims      Claims      // nil keeps claims no longer than the process lives
	Digester    Digester    // of params; nil makes digests that a later process cannot compare
	// ClaimDigester makes the digests of params in [SharedClaims], with a key that
	// all processes have.
	ClaimDigester Digester
	// Sealer seals the answers in [SharedClaims], which may have secrets in them,
	// so that only these processes read them. It is needed with them.
	Sealer Sealer
	// State is the state that commands read and write, where other processes write
	// it, too; nil where none does.
	State      State
	Tasks      Tasks // nil refuses params.async
	Extensions Extensions

	// Agents may register commands of their own if all of these are set.
	Forwarder  Forwarder
	Namespaces records.Table[Namespace]
	Schemas    SchemaCompiler
	Reserved   []string // namespaces that mean something else, besides the families of commands

	// Refused is called with refused commands: with errors about the request or its
	// sender, of class 1 or 2, and with 4009. It must not block, and not keep the
	// call. It may be nil.
	Refused func(*Call, *protocol.Error)

	BridgeID      string          // sender_id of answers, default "aibridge"
	Doors         *Doors          // the ports shown by bridge.describe; optional
	Workers       int             // calls that run at once, parked ones not counted; default 64, or 8 per processor
	MaxInFlight   int             // calls that were taken and are not done, of one principal half as many; default 16384
	MaxRemembered int             // finished requests known for repeats, default 524288
	MaxAnswers    int             // bytes of answers kept for repeats, default 64 MiB
	Skew          time.Duration   // allowed between clocks, default 60 s
	Limits        protocol.Limits // of request bodies
	Log           *slog.Logger
	Now           func() time.Time
	Clock         *clock.Clock          // its steady time measures the time that requests are remembered; default a new one
	Tracer        trace.Tracer          // nil records no spans
	Registerer    prometheus.Registerer // nil keeps the metrics to itself
}

func (o RouterOptions) withDefaults() RouterOptions {
	if o.Authorizer == nil {
		o.Authorizer = denyAll{}
	}
	if o.Credentials == nil {
		o.Credentials = everlasting{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	o.BridgeID = cmp.Or(o.BridgeID, "aibridge")
	o.Workers = cmp.Or(o.Workers, max(64, 8*runtime.GOMAXPROCS(0)))
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 16384)
	o.MaxRemembered = cmp.Or(o.MaxRemembered, 1<<19)
	o.MaxAnswers = cmp.Or(o.MaxAnswers, 64<<20)
	o.Skew = cmp.Or(o.Skew, time.Minute)
	return o
}

// An Inbound is a request as a front door hands it in.
type Inbound struct {
	Principal   *protocol.Principal
	Body        []byte                // the request envelope
	Request     *protocol.Request     // instead of Body, of callers within the bridge: its params must not change any more, and no [Parser] sees it
	Expiry      time.Duration         // MQTT message expiry, 0 means none
	Arrived     int64                 // steady time at which it came, by the router's clock; 0 for now
	Door        string                // mqtt, http, ws
	Client      string                // id of the MQTT client it came from, "" by other doors
	Line        Line                  // the connection it came over, nil if the bridge cannot ask anything on it
	Address     netip.Addr            // it came from, zero if not known
	Traceparent string                // W3C trace context, "" without one
	Emit        func(*protocol.Event) // takes the events of a call that asked for them; must not block
	Audience    Audience              // waits for the answer, nil if it is not known
	Matched     bool                  // the door matches the answer with the request, which then needs no id, see [protocol.Request.DecodeMatched]
	Batched     bool                  // more may follow at once, and then Flush is called
	Held        bool                  // no answer is sent before the auditor has been called to keep its entries
	Plans       *Plans                // of the connection it came over, nil without any
	Template    *Template             // that Request has its command and params from, nil without any
	Free        func()                // called, if not nil, when Reply, Emit and Audience are not looked at any more; of most requests only
	Depth       int                   // calls of tools by models that it is within, as far as is known
	Claim       string                // claimed sender, unknown to this bridge, for policy and audit alone; "" for the principal itself
	Confirm     func() error          // called right before the command runs; an error refuses it; must not block; optional
	Ask         Asker                 // asks the sender of the request meanwhile, nil if it cannot be asked

	kept bool // the submitter goes on to look at the call
}

// size is the weight of a request for quotas, in bytes.
func (in *Inbound) size() int {
	if in.Request != nil {
		return len(in.Request.Params)
	}
	return len(in.Body)
}

// A Router is the one way in for every command: decode → version → deadline
// → find → params → authorize → deduplicate → run → answer.
type Router struct {
	set       *Set
	opts      RouterOptions
	prints    fingerprinter
	moments   *moments // nil if the router was given another calendar
	ledger    *ledger
	slots     *scheduler
	inFlight  *inFlight
	deadlines *deadlines
	metrics   *metrics
	agents    *namespaces
	judge     CallAuthorizer    // the authorizer, if it is one
	lasting   LastingAuthorizer // the authorizer, if it is one and calls can be prepared

	refusals RefusalLimiter // the limiter, if it is one

	queue       ClaimQueue    // opts.Claims, if it is one
	shared      SharedClaims  // the same
	claimPrints fingerprinter // of shared claims
	backlog     backlog

	awaiting atomic.Int64 // goroutines in Await and Handle

	idle    chan *Call // hands calls to goroutines that rest
	resting atomic.Int32
	closed  chan struct{}
	closing sync.Once
}

// NewRouter makes a router for the commands of a set.
func NewRouter(set *Set, opts RouterOptions) *Router {
	opts = opts.withDefaults()
	var shared *moments
	if opts.Now == nil {
		opts.Now, shared = time.Now, &moments{clock: opts.Clock}
	}
	r := &Router{
		set:       set,
		moments:   shared,
		opts:      opts,
		prints:    newFingerprinter(opts.Digester),
		ledger:    newLedger(opts.MaxRemembered, opts.MaxAnswers),
		slots:     newScheduler(opts.Workers),
		inFlight:  newInFlight(opts.MaxInFlight),
		deadlines: newDeadlines(),
		idle:      make(chan *Call),
		closed:    make(chan struct{}),
	}
	r.judge, _ = opts.Authorizer.(CallAuthorizer)
	if opts.prepares() {
		r.lasting, _ = opts.Authorizer.(LastingAuthorizer)
	}
	r.refusals, _ = opts.Limiter.(RefusalLimiter)
	r.metrics = newMetrics(r)
	r.agents = newNamespaces(r)
	if opts.Claims != nil {
		r.queue, _ = opts.Claims.(ClaimQueue)
		if r.shared, _ = opts.Claims.(SharedClaims); r.shared != nil {
			r.claimPrints = newFingerprinter(opts.ClaimDigester)
		}
		now, steady := opts.Now(), r.steady()
		for c := range opts.Claims.Pending {
			c.Expires = steady.Add(c.Expires.Sub(now))
			r.ledger.remember(c, steady)
		}
	}
	return r
}

// steady is the time by a clock that is never set. Only differences mean anything.
func (r *Router) steady() time.Time { return time.Unix(0, r.opts.Clock.Steady()) }

// Set is the commands the router was made with, without those that agents
// have registered.
func (r *Router) Set() *Set { return r.set }

// Submit takes a request and answers it by reply, which is called exactly
// once, possibly before Submit returns, and must not block; the response is
// good until it returns. Submit itself does not block, and it does not keep
// in.Body.
func (r *Router) Submit(in Inbound, reply func(*protocol.Response)) { r.submit(in, reply) }

func (r *Router) submit(in Inbound, reply func(*protocol.Response)) *Call {
	c, err := r.take(in, reply)
	if in.kept {
		c.Hold()
	}
	r.startSpan(c)
	r.watch(c, in.Audience)
	if limited := r.limit(in.Principal, in.size()); limited != nil {
		err = limited
	}
	if err == nil {
		err = r.enter(c)
	}
	if err != nil {
		r.answer(c, outcome{err: r.seen(c, asError(err))})
		return c
	}
	r.deadlines.set(c, c.lasts(c.arrived))
	if c.inline = r.goesOn(c); c.inline {
		c.batched = in.Batched
		planned := c.plan != nil
		r.process(c)
		if !planned { // others may have ended by now, and be used again
			r.remember(&in, c)
		}
	} else {
		r.slots.start(c.Priority, c)
	}
	return c
}

// enter takes a call into flight if there is room.
func (r *Router) enter(c *Call) error {
	switch r.inFlight.enter(c) {
	case full:
		return protocol.BusyFor(r.retryAfter(), "too many calls are in flight")
	case greedy:
		return protocol.BusyFor(r.retryAfter(), "too many of the caller's calls are in flight")
	case closing:
		return shuttingDown()
	case taken:
	}
	return nil
}

func shuttingDown() *protocol.Error {
	return protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down")
}

// retryAfter is the time when a caller that found no room should come back: about when
// those before it will be done, at a millisecond each.
func (r *Router) retryAfter() time.Duration {
	wait := time.Duration(r.slots.queued()) * time.Millisecond
	return min(max(wait, 100*time.Millisecond), 5*time.Second)
}

// Handle is Submit for callers that wait. When ctx ends it returns at once
// with an error response; the call goes on, so that repeats of the request get its
// answer, unless the command is abandonable.
func (r *Router) Handle(ctx context.Context, in Inbound) *protocol.Response {
	r.awaiting.Add(1)
	defer r.awaiting.Add(-1)
	answered := make(chan *protocol.Response, 1)
	in.kept, in.Batched = true, true
	c := r.submit(in, func(resp *protocol.Response) { answered <- kept(resp) })
	r.flushWithOthers(c)
	select {
	case resp := <-answered:
		return resp
	case <-ctx.Done():
	}
	if abandonable(c) {
		r.abandon(c)
	}
	resp := c.request.Answer(r.opts.BridgeID, r.opts.Now())
	resp.Err = protocol.AsError(ctx.Err())
	return resp
}

// kept is a response that is good for longer than that to a submitted request.
func kept(resp *protocol.Response) *protocol.Response {
	resp.Result = bytes.Clone(resp.Result)
	return resp
}

// Dispatch runs a command on behalf of another call: with its principal,
// priority and deadline, but authorized, deduplicated and claimed on its own,
// under id. An id of "" is derived from the parent's. Params need not have
// been checked. While the command runs, the parent is parked.
func (r *Router) Dispatch(ctx context.Context, parent *Call, name string, params json.RawMessage, id string) (json.RawMessage, error) {
	if id == "" {
		id = fmt.Sprintf("%s#%d", parent.RequestID, parent.children.Add(1))
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	} else if err := protocol.CheckJSON(params, r.opts.Limits); err != nil {
		return nil, err
	}
	answered := make(chan *protocol.Response, 1)
	c := parent.child(ctx, name, params, id)
	c.reply = func(resp *protocol.Response) { answered <- kept(resp) }
	if err := r.limit(c.Principal, len(params)); err != nil {
		return nil, r.seen(c, err)
	}
	if err := r.find(c); err != nil {
		return nil, r.seen(c, asError(err))
	}
	r.startSpan(c)
	err := parent.Park(ctx, func(ctx context.Context) error {
		if !r.slots.acquire(ctx, c.Priority) {
			return ctx.Err()
		}
		c.holdSlot()
		r.process(c)
		c.yield()
		select {
		case <-ctx.Done():
			r.withdraw(c)
			return ctx.Err()
		case resp := <-answered:
			answered <- resp
			return nil
		}
	})
	select {
	case resp := <-answered:
		for _, w := range resp.Metadata.Warnings {
			parent.Warn("%s: %s", name, w)
		}
		if resp.Err != nil {
			return resp.Result, resp.Err
		}
		return resp.Result, nil
	default:
		return nil, err
	}
}

// Close stops taking requests and waits until those in flight are done. When ctx
// ends first, unfinished ones end with 5002 and are logged.
func (r *Router) Close(ctx context.Context) error {
	left := r.inFlight.close(ctx)
	r.closing.Do(func() { close(r.closed) })
	defer r.deadlines.stop()
	for _, c := range left {
		c.own.end(context.Canceled)
		r.answer(c, outcome{err: r.seen(c, shuttingDown())})
	}
	if len(left) == 0 {
		return nil
	}
	r.opts.Log.Warn("calls were cut off: they did not end in the time that the bridge has to stop", "calls", len(left), "among_them", named(left))
	return fmt.Errorf("%d commands were still running: %w", len(left), ctx.Err())
}

// maxNamed is the number of calls that are named when they were cut off.
const maxNamed = 20

// named is which calls these are: command, id of the request and whose it is.
func named(calls []*Call) []string {
	names := make([]string, 0, min(len(calls), maxNamed))
	for _, c := range calls[:min(len(calls), maxNamed)] {
		names = append(names, fmt.Sprintf("%s %q of %s", c.Command, c.RequestID, c.Principal.ID))
	}
	return names
}
