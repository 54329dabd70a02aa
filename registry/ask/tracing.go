package ask

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
)

// startSpan begins the span of an exchange with somebody, whom the attribute
// names.
func (s *Service) startSpan(ctx context.Context, name, attr, whom, exchange string) (_ context.Context, end func()) {
	if s.opts.Tracer == nil {
		return ctx, func() {}
	}
	ctx, span := s.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String(attr, whom), attribute.String("aibridge.exchange", exchange)))
	return ctx, func() { span.End() }
}

// spanOf begins the span of an exchange whose peer is known, and named, later.
func (s *Service) spanOf(ctx context.Context, name, attr, exchange string) (_ context.Context, whom func(string), end func()) {
	ctx, span := s.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("aibridge.exchange", exchange)))
	return ctx, func(id string) { span.SetAttributes(attribute.String(attr, id)) }, func() { span.End() }
}

// tellMessage tells the span of an exchange by which message it is sent, by the
// conventions of messaging.
func (s *Service) tellMessage(ctx context.Context, topic, exchange string) {
	if s.opts.Tracer == nil {
		return
	}
	trace.SpanFromContext(ctx).SetAttributes(
		semconv.MessagingSystem.String("mqtt"), semconv.MessagingType.String("send"), semconv.MessagingOperation.String("publish"),
		semconv.MessagingDestination.String(topic), semconv.MessagingConversation.String(exchange),
	)
}
