package model

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/llm/chat"
)

// systems are what OpenTelemetry calls the providers of our wires.
var systems = map[string]string{"openai": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}

// startSpan begins a span by the GenAI conventions. It says nothing of what
// is asked.
func (s *Service) startSpan(ctx context.Context, m *model, t target, r *chat.Request) (context.Context, trace.Span) {
	if s.opts.Tracer == nil {
		return ctx, nil
	}
	attributes := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", systems[t.provider.config.Wire]),
		attribute.String("gen_ai.request.model", t.Model),
		attribute.String("aibridge.llm.model", m.Name),
		attribute.String("aibridge.llm.provider", t.provider.config.Name),
	}
	if r.Options.MaxTokens > 0 {
		attributes = append(attributes, attribute.Int("gen_ai.request.max_tokens", r.Options.MaxTokens))
	}
	if r.Options.Temperature != nil {
		attributes = append(attributes, attribute.Float64("gen_ai.request.temperature", *r.Options.Temperature))
	}
	return s.opts.Tracer.Start(ctx, "chat "+t.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

func endSpan(span trace.Span, a *chat.Answer, err error) {
	if span == nil {
		return
	}
	defer span.End()
	if err != nil {
		kind := "cancelled"
		if failure := asFailure(err); failure != nil {
			kind = string(failure.Kind)
		}
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, kind)
		return
	}
	span.SetAttributes(
		attribute.String("gen_ai.response.model", a.Finish.Model),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(a.Finish.Reason)}),
		attribute.Int("gen_ai.usage.input_tokens", a.Finish.Usage.Input),
		attribute.Int("gen_ai.usage.output_tokens", a.Finish.Usage.Output),
	)
}
