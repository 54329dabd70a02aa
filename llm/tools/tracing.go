package tools

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// startSpan begins the span of a call of a tool by the GenAI conventions, and sets the
// trace context of the environment to it. The span does not hold the arguments.
func (e *Executor) startSpan(ctx context.Context, env *Environment, c *chat.ToolCall) (context.Context, trace.Span) {
	if e.Tracer == nil {
		return ctx, nil
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = semconv.Continue(ctx, env.Traceparent)
	}
	attributes := append([]attribute.KeyValue{
		semconv.Operation.String(semconv.ExecuteTool),
		semconv.ToolName.String(c.Name),
		semconv.ToolCallID.String(c.ID),
		semconv.ToolType.String("function"),
	}, env.Traced...)
	if env.Session != "" {
		attributes = append(attributes, semconv.Conversation.String(env.Session))
	}
	ctx, span := e.Tracer.Start(ctx, semconv.ExecuteTool+" "+c.Name, trace.WithAttributes(attributes...))
	env.Traceparent = semconv.Traceparent(ctx)
	return ctx, span
}

// endSpan ends the span of a call with its outcome.
func endSpan(span trace.Span, r *Result) {
	if span == nil {
		return
	}
	defer span.End()
	switch {
	case r.Err != nil:
		code := protocol.AsError(r.Err).Code
		span.SetAttributes(semconv.ErrorType.String(string(code)))
		span.SetStatus(codes.Error, code.String())
	case r.Output.IsError:
		span.SetAttributes(semconv.ErrorType.String("tool_error"))
		span.SetStatus(codes.Error, "the tool itself reported an error")
	case r.Status == Waiting:
		span.SetAttributes(attribute.Bool("aibridge.waiting", true))
	}
}
