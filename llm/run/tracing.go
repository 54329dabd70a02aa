package run

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
)

// startSpan begins the span of a run's engine, by the GenAI conventions. The returned
// function ends it at the stop of the engine.
func (s *Service) startSpan(ctx context.Context, l *live, e *engine) (context.Context, func(Stop)) {
	began, name := s.opts.Now(), cmp.Or(e.prompt.workflow, "run")
	var span trace.Span
	if s.opts.Tracer != nil {
		ctx, span = s.opts.Tracer.Start(ctx, semconv.InvokeWorkflow+" "+name, trace.WithAttributes(
			semconv.Operation.String(semconv.InvokeWorkflow), semconv.WorkflowName.String(name),
			semconv.Conversation.String(l.id), attribute.String("aibridge.trace_id", l.now().TraceID)))
	}
	return ctx, func(stop Stop) {
		s.metrics.took.WithLabelValues(string(stop.Code)).Observe(s.opts.Now().Sub(began).Seconds())
		if span == nil {
			return
		}
		span.SetAttributes(attribute.String("aibridge.run.phase", string(stop.Phase)))
		if stop.Code != "" {
			span.SetAttributes(semconv.ErrorType.String(string(stop.Code)))
			span.SetStatus(codes.Error, string(stop.Code))
		}
		span.End()
	}
}
