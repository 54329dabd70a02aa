package model

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
)

// vendors are OpenTelemetry's names of providers by wire, for addresses without an
// entry in hosts.
var vendors = map[string]string{"openai": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}

// hosts are OpenTelemetry's names of providers at a domain or below it.
var hosts = []struct{ domain, vendor string }{
	{"openai.azure.com", "azure.ai.openai"},
	{"services.ai.azure.com", "azure.ai.inference"},
	{"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"generativelanguage.googleapis.com", "gcp.gemini"},
	{"amazonaws.com", "aws.bedrock"},
	{"cohere.com", "cohere"},
	{"cohere.ai", "cohere"},
	{"deepseek.com", "deepseek"},
	{"groq.com", "groq"},
	{"mistral.ai", "mistral_ai"},
	{"moonshot.ai", "moonshot_ai"},
	{"moonshot.cn", "moonshot_ai"},
	{"perplexity.ai", "perplexity"},
	{"x.ai", "x_ai"},
}

// vendor returns OpenTelemetry's name of a provider.
func vendor(p *ProviderConfig) string {
	if u, err := url.Parse(p.BaseURL); err == nil {
		for _, h := range hosts {
			if within := "." + u.Hostname(); strings.HasSuffix(within, "."+h.domain) || strings.HasSuffix(within, "-"+h.domain) {
				return h.vendor
			}
		}
	}
	return vendors[p.Wire]
}

// server is the address of a provider, without its path.
func server(p *ProviderConfig) []attribute.KeyValue {
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = map[string]int{"https": 443, "http": 80}[u.Scheme]
	}
	return []attribute.KeyValue{semconv.ServerAddress.String(u.Hostname()), semconv.ServerPort.Int(port)}
}

// startSpan begins the span of a question by the GenAI conventions, without the text of
// the question.
func (s *Service) startSpan(ctx context.Context, m *model, t target, r *chat.Request) (context.Context, trace.Span) {
	if s.opts.Tracer == nil {
		return ctx, nil
	}
	o := &r.Options
	attributes := append(s.attributes(semconv.Chat, m, t), semconv.RequestStream.Bool(true))
	if o.MaxTokens > 0 {
		attributes = append(attributes, semconv.MaxTokens.Int(o.MaxTokens))
	}
	if o.Temperature != nil {
		attributes = append(attributes, semconv.Temperature.Float64(*o.Temperature))
	}
	if o.TopP != nil {
		attributes = append(attributes, semconv.TopP.Float64(*o.TopP))
	}
	if o.Seed != nil {
		attributes = append(attributes, semconv.Seed.Int64(*o.Seed))
	}
	return s.opts.Tracer.Start(ctx, semconv.Chat+" "+t.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// startEmbedding begins the span of a request for embeddings.
func (s *Service) startEmbedding(ctx context.Context, m *model, t target) (context.Context, trace.Span) {
	if s.opts.Tracer == nil {
		return ctx, nil
	}
	attributes := s.attributes(semconv.Embeddings, m, t)
	if m.Dimensions > 0 {
		attributes = append(attributes, semconv.Dimensions.Int(m.Dimensions))
	}
	return s.opts.Tracer.Start(ctx, semconv.Embeddings+" "+t.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// attributes name the operation, its model and its provider.
func (s *Service) attributes(operation string, m *model, t target) []attribute.KeyValue {
	return append(slices.Clone(t.provider.server),
		semconv.Operation.String(operation),
		semconv.Provider.String(t.provider.vendor),
		semconv.RequestModel.String(t.Model),
		attribute.String("aibridge.llm.model", m.Name),
		attribute.String("aibridge.llm.provider", t.provider.config.Name),
	)
}

// endSpan ends the span of a question. First is the time until its first event, 0
// without events.
func endSpan(span trace.Span, a *chat.Answer, err error, first time.Duration) {
	if span == nil {
		return
	}
	defer span.End()
	if first > 0 {
		span.SetAttributes(semconv.FirstChunk.Float64(first.Seconds()))
	}
	if err != nil {
		failSpan(span, err)
		return
	}
	span.SetAttributes(semconv.ResponseModel.String(a.Finish.Model), semconv.FinishReasons.StringSlice([]string{string(a.Finish.Reason)}))
	tellUsage(span, a.Finish.Usage)
}

// endEmbedding ends the span of a request for embeddings.
func endEmbedding(span trace.Span, made *chat.Embeddings, err error) {
	if span == nil {
		return
	}
	defer span.End()
	if err != nil {
		failSpan(span, err)
		return
	}
	span.SetAttributes(semconv.InputTokens.Int(made.Usage.Input))
}

func failSpan(span trace.Span, err error) {
	kind := ending(err)
	span.SetAttributes(semconv.ErrorType.String(kind))
	span.SetStatus(codes.Error, kind)
}

// tellUsage adds the tokens of an answer to a span, those of caches and of reasoning
// unless 0.
func tellUsage(span trace.Span, u chat.Usage) {
	span.SetAttributes(semconv.InputTokens.Int(u.Input), semconv.OutputTokens.Int(u.Output))
	for key, n := range map[attribute.Key]int{
		semconv.CacheReadTokens: u.Cached, semconv.CacheWriteTokens: u.CacheWrite, semconv.ReasoningTokens: u.Reasoning,
	} {
		if n > 0 {
			span.SetAttributes(key.Int(n))
		}
	}
}
