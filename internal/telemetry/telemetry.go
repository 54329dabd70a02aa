// Package telemetry sends traces to an OpenTelemetry collector.
package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/cleartext"
)

// otlpHeaders are the variables by which the exporter is given credentials.
var otlpHeaders = []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}

// Settings hold the collector of traces.
type Settings struct {
	OTLP string `yaml:"otlp" doc:"URL of an OpenTelemetry collector (HTTP); none when empty"`
}

// Check refuses a collector that credentials would go to in the clear.
func (t *Settings) Check(fail func(format string, args ...any)) {
	u, err := url.Parse(t.OTLP)
	if t.OTLP == "" || err != nil {
		return // the exporter reports the fault
	}
	credential := u.User != nil || u.RawQuery != ""
	for _, name := range otlpHeaders {
		credential = credential || os.Getenv(name) != ""
	}
	if why := cleartext.Exposes(u); why != "" && credential {
		fail("telemetry.otlp: %s", why)
	}
}

// NewTracer makes the tracer of the bridge's spans, and the function that flushes
// it. It is nil when no collector is configured: then nothing is traced.
func NewTracer(ctx context.Context, t Settings, bridgeID, version string) (trace.Tracer, func(context.Context) error, error) {
	const name = "github.com/aibridge/aibridge"
	if t.OTLP == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	collector, err := newCollector(t.OTLP)
	if err != nil {
		return nil, nil, fmt.Errorf("telemetry.otlp: %w", err)
	}
	exporter, err := otlptrace.New(ctx, collector)
	if err != nil {
		return nil, nil, fmt.Errorf("telemetry.otlp: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "aibridge"),
			attribute.String("service.version", version),
			attribute.String("service.instance.id", bridgeID),
		)),
	)
	return provider.Tracer(name), provider.Shutdown, nil
}
