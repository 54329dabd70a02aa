package ask

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
)

// startSpan begins the span of an exchange. The attribute attr names the peer.
func (s *Service) startSpan(ctx context.Context, name, attr, whom, exchange string) (_ context.Context, end func()) {
	if s.opts.Tracer == nil {
		return ctx, func() {}
	}
	ctx, span := s.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String(attr, whom), attribute.String("aibridge.exchange", exchange)))
	return ctx, func() { span.End() }
}

// spanOf begins the span of an exchange whose peer is set later, by the function whom.
func (s *Service) spanOf(ctx context.Context, name, attr, exchange string) (_ context.Context, whom func(string), end func()) {
	ctx, span := s.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("aibridge.exchange", exchange)))
	return ctx, func(id string) { span.SetAttributes(attribute.String(attr, id)) }, func() { span.End() }
}

// tellMessage adds the message of a request to the span of the exchange, by the
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
