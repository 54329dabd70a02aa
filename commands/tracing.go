package commands

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/protocol"
)

// traceContext is the context of a request that continues a W3C trace, so that
// the trace reaches all calls of the handler, traced here or not.
func (r *Router) traceContext(traceparent string) context.Context {
	if traceparent == "" {
		return context.Background()
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// startSpan begins the span of a call, from arrival to answer.
func (r *Router) startSpan(c *Call) {
	if r.opts.Tracer == nil {
		return
	}
	name := unknownCommand
	if c.command != nil {
		name = c.command.Name
	}
	attributes := trace.WithAttributes(
		attribute.String("aibridge.command", name),
		attribute.String("aibridge.request_id", c.RequestID),
		attribute.String("aibridge.trace_id", c.TraceID),
		attribute.String("aibridge.door", c.Door),
	)
	parent := c.ctx
	if c.ctx == &c.own.callContext {
		parent = c.own.parent
	}
	ctx, span := r.opts.Tracer.Start(parent, name, attributes, trace.WithSpanKind(trace.SpanKindServer))
	c.span = span
	if c.ctx == &c.own.callContext {
		c.own.parent = ctx // its deadline stays that of the call
	} else {
		c.ctx = ctx
	}
}

func (r *Router) endSpan(c *Call, err *protocol.Error) {
	if c.span == nil {
		return
	}
	if err != nil {
		c.span.SetAttributes(attribute.String("aibridge.code", string(err.Code)))
		c.span.SetStatus(codes.Error, err.Message)
	}
	c.span.End()
}
