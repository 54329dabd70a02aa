package commands

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// RouterOptions configure a [Router]. Zero fields mean the defaults.
type RouterOptions struct {
	Authorizer Authorizer // nil refuses everything
	Claims     Claims     // nil keeps no durable claims
	Tasks      Tasks      // nil refuses params.async
	Forwarder  Forwarder  // nil refuses command.register

	BridgeID    string          // sender_id of answers, default "aibridge"
	Workers     int             // calls that run at once, parked ones not counted
	MaxInFlight int             // calls taken and not yet answered, default 16384
	Skew        time.Duration   // allowed between clocks, default 60 s
	Limits      protocol.Limits // of request bodies
	Log         *slog.Logger
	Now         func() time.Time
	Tracer      trace.Tracer          // nil records no spans
	Registerer  prometheus.Registerer // nil keeps the metrics to itself
}

// An Inbound is a request as a front door hands it in.
type Inbound struct {
	Principal   *protocol.Principal
	Body        []byte                // the request envelope
	Expiry      time.Duration         // MQTT message expiry, 0 means none
	Door        string                // mqtt, http, ws
	Traceparent string                // W3C trace context, "" without one
	Emit        func(*protocol.Event) // takes the call's events; nil: none wanted. Must not block
}

// A Router is the one way in for every command.
type Router struct {
	set  *Set
	opts RouterOptions
}

// NewRouter makes a router for the commands of a set.
func NewRouter(set *Set, opts RouterOptions) *Router {
	if opts.BridgeID == "" {
		opts.BridgeID = "aibridge"
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Router{set: set, opts: opts}
}

// Submit takes a request and answers it by reply, which is called exactly
// once, possibly before Submit returns, and must not block. Submit itself
// does not block and does not keep in.Body.
func (r *Router) Submit(in Inbound, reply func(*protocol.Response)) {
	req, err := protocol.DecodeRequest(in.Body, r.opts.Limits)
	answer := func(result json.RawMessage, call *Call, err error) {
		resp := req.Answer(r.opts.BridgeID, r.opts.Now())
		resp.Result, resp.Err = result, protocol.AsError(err)
		if call != nil {
			resp.Metadata.Warnings = append(resp.Metadata.Warnings, call.warnings...)
		}
		reply(resp)
	}
	if err != nil {
		answer(nil, nil, err)
		return
	}
	call := &Call{Principal: in.Principal, Command: req.Command, RequestID: req.ID, SenderID: req.Metadata.SenderID, TraceID: req.Metadata.TraceID, Priority: req.Metadata.Priority, Door: in.Door, Extension: req.Extension, router: r}
	if call.SenderID == "" {
		call.SenderID = in.Principal.ID
	}
	call.Deadline = r.opts.Now().Add(req.Metadata.Timeout)
	go func() {
		ctx, cancel := context.WithDeadline(context.Background(), call.Deadline)
		defer cancel()
		result, err := r.run(ctx, call, req.Params)
		answer(result, call, err)
	}()
}

func (r *Router) run(ctx context.Context, call *Call, params json.RawMessage) (json.RawMessage, error) {
	cmd, ok := r.set.Find(call.Command)
	if !ok {
		return nil, protocol.Errorf(protocol.UnknownCommand, "unknown command %q", call.Command)
	}
	inv, err := cmd.decode(params)
	if err != nil {
		return nil, err
	}
	if r.opts.Authorizer == nil {
		return nil, protocol.Errorf(protocol.PermissionDenied, "nobody may do anything here")
	}
	if err := r.opts.Authorizer.Authorize(ctx, call.Principal, cmd.Action, inv.target()); err != nil {
		return nil, err
	}
	return inv.run(ctx, call)
}

// Handle is Submit for callers that wait. When ctx ends it returns at once
// with an error response; the call goes on, so that others who asked the same
// are answered and a repeat gets the answer.
func (r *Router) Handle(ctx context.Context, in Inbound) *protocol.Response {
	answered := make(chan *protocol.Response, 1)
	r.Submit(in, func(resp *protocol.Response) { answered <- resp })
	select {
	case resp := <-answered:
		return resp
	case <-ctx.Done():
		resp := (&protocol.Request{}).Answer(r.opts.BridgeID, r.opts.Now())
		resp.Err = protocol.AsError(ctx.Err())
		return resp
	}
}

// Dispatch runs a command on behalf of another call, with that call's
// principal, priority and deadline, and authorized, deduplicated and claimed
// on its own under id ("" derives one from the parent's).
func (r *Router) Dispatch(ctx context.Context, parent *Call, name string, params json.RawMessage, id string) (json.RawMessage, error) {
	call := *parent
	call.Command, call.RequestID = name, id
	return r.run(ctx, &call, params)
}

// Close stops taking requests, waits until those in flight are answered and,
// when ctx ends first, answers the rest with 5002.
func (r *Router) Close(ctx context.Context) error { return nil }
