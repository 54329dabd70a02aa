// Package semconv has the names of OpenTelemetry's semantic conventions for the
// bridge's spans and metrics: those of generative AI, of MCP and of messaging.
//
// The conventions of [generative AI] and of MCP are in development: a name that
// changes there changes here, and nowhere else. No name stands for contents:
// prompts, answers, arguments of tools and published messages are never recorded.
//
// [generative AI]: https://github.com/open-telemetry/semantic-conventions-genai
package semconv

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of every span.
const (
	ErrorType     attribute.Key = "error.type"
	ServerAddress attribute.Key = "server.address"
	ServerPort    attribute.Key = "server.port"
)

// Attributes of generative AI.
const (
	Operation        attribute.Key = "gen_ai.operation.name"
	Provider         attribute.Key = "gen_ai.provider.name"
	Conversation     attribute.Key = "gen_ai.conversation.id"
	RequestModel     attribute.Key = "gen_ai.request.model"
	RequestStream    attribute.Key = "gen_ai.request.stream"
	MaxTokens        attribute.Key = "gen_ai.request.max_tokens"
	Temperature      attribute.Key = "gen_ai.request.temperature"
	TopP             attribute.Key = "gen_ai.request.top_p"
	Seed             attribute.Key = "gen_ai.request.seed"
	ResponseModel    attribute.Key = "gen_ai.response.model"
	FinishReasons    attribute.Key = "gen_ai.response.finish_reasons"
	FirstChunk       attribute.Key = "gen_ai.response.time_to_first_chunk"
	InputTokens      attribute.Key = "gen_ai.usage.input_tokens"
	OutputTokens     attribute.Key = "gen_ai.usage.output_tokens"
	CacheReadTokens  attribute.Key = "gen_ai.usage.cache_read.input_tokens"
	CacheWriteTokens attribute.Key = "gen_ai.usage.cache_creation.input_tokens"
	ReasoningTokens  attribute.Key = "gen_ai.usage.reasoning.output_tokens"
	Dimensions       attribute.Key = "gen_ai.embeddings.dimension.count"
	AgentName        attribute.Key = "gen_ai.agent.name"
	WorkflowName     attribute.Key = "gen_ai.workflow.name"
	ToolName         attribute.Key = "gen_ai.tool.name"
	ToolCallID       attribute.Key = "gen_ai.tool.call.id"
	ToolType         attribute.Key = "gen_ai.tool.type"
)

// Values of Operation.
const (
	Chat           = "chat"
	Embeddings     = "embeddings"
	ExecuteTool    = "execute_tool"
	InvokeAgent    = "invoke_agent"
	InvokeWorkflow = "invoke_workflow"
)

// Attributes of MCP.
const (
	MCPMethod   attribute.Key = "mcp.method.name"
	MCPSession  attribute.Key = "mcp.session.id"
	MCPResource attribute.Key = "mcp.resource.uri"
	MCPPrompt   attribute.Key = "gen_ai.prompt.name"
	Transport   attribute.Key = "network.transport"
)

// Attributes of messaging.
const (
	MessagingSystem       attribute.Key = "messaging.system"
	MessagingOperation    attribute.Key = "messaging.operation.name"
	MessagingType         attribute.Key = "messaging.operation.type"
	MessagingDestination  attribute.Key = "messaging.destination.name"
	MessagingConversation attribute.Key = "messaging.message.conversation_id"
)

// Traceparent is the W3C trace context of a context, "" if nothing is traced.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// Continue is a context that goes on with the trace of a traceparent; ctx itself
// if that is empty or no trace context.
func Continue(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// durations are the bounds that the conventions want of durations, in seconds.
var durations = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}

// Seconds makes a histogram of durations.
func Seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durations}, labels)
}

// Tokens makes a histogram of numbers of tokens.
func Tokens(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(1, 4, 14)}, labels)
}
