package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/internal/telemetry"
	"github.com/aibridge/aibridge/protocol"
)

// The options of a bridge are the parts that its builder may replace or add.
type options struct {
	log        *slog.Logger
	version    string
	newer      int // see [cluster.Options]
	clock      *clock.Clock
	look       func(folder string) (diskspace.Disk, error) // nil for the system's word
	extensions commands.Extensions
	commands   []commands.Command // beside the bridge's own
}

// The base of a bridge holds its configuration and options, and the things that every
// part uses.
type base struct {
	options
	config   Config
	topics   protocol.Topics
	metrics  *prometheus.Registry
	tracer   trace.Tracer // nil if nothing is traced
	life     *lifecycle.Lifecycle
	leaving  context.Context // ends when the bridge begins to stop
	draining *draining
}

func newBase(ctx context.Context, config Config, o options, life *lifecycle.Lifecycle, leaving context.Context) (*base, error) {
	tracer, flush, err := telemetry.NewTracer(ctx, config.Telemetry, config.ID, o.version)
	if err != nil {
		return nil, err
	}
	life.Add("traces", flush)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &base{
		options: o, config: config, topics: protocol.NewTopics(config.Root), metrics: metrics, tracer: tracer, life: life, leaving: leaving, draining: newDraining(&config.Cluster),
	}, nil
}
