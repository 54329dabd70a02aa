package servers

import (
	"context"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
)

// An errand is a request to a server: a method, and the name of its subject.
type errand struct {
	method string
	about  attribute.KeyValue
}

// startSpan begins the span of an errand by the conventions of MCP, and returns the
// function that ends it. The trace context goes to the server, so that its own spans
// join the trace (SEP-414).
func (l *connection) startSpan(ctx context.Context, e errand, session *sdk.ClientSession, meta sdk.Meta) (context.Context, func(error)) {
	end := func(error) {}
	if tracer := l.service.opts.Tracer; tracer != nil {
		attributes := append(l.way(), semconv.MCPMethod.String(e.method), e.about, attribute.String("aibridge.mcp.server", l.config.Name))
		if id := session.ID(); id != "" {
			attributes = append(attributes, semconv.MCPSession.String(id))
		}
		traced, span := tracer.Start(ctx, e.method+" "+l.config.Name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
		ctx, end = traced, func(err error) {
			if err != nil {
				span.SetStatus(codes.Error, "the MCP server failed") // the server's text is for the caller alone
			}
			span.End()
		}
	}
	if parent := semconv.Traceparent(ctx); parent != "" {
		meta["traceparent"] = parent
	}
	return ctx, end
}

// way returns the attributes of the transport to the server.
func (l *connection) way() []attribute.KeyValue {
	if l.device != nil {
		return []attribute.KeyValue{semconv.Transport.String("tcp"), attribute.String("network.protocol.name", "mqtt")}
	}
	if len(l.config.Command) > 0 {
		return []attribute.KeyValue{semconv.Transport.String("pipe")}
	}
	attributes := []attribute.KeyValue{semconv.Transport.String("tcp")}
	if u, err := url.Parse(l.config.URL); err == nil {
		attributes = append(attributes, semconv.ServerAddress.String(u.Hostname()))
	}
	return attributes
}
