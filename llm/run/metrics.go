package run

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/run/fault"
)

type metrics struct {
	rests *prometheus.CounterVec
	turns prometheus.Counter
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec // by the conventions of OpenTelemetry
}

func newMetrics(r prometheus.Registerer, s *Service) *metrics {
	m := &metrics{
		rests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_runs_rested_total", Help: "Runs of workflows that came to rest, by phase and reason.",
		}, []string{"phase", "reason"}),
		turns: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_run_turns_total", Help: "Questions that runs have asked language models.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_run_calls_total", Help: "Calls of tools by runs, by outcome.",
		}, []string{"result"}),
		took: semconv.Seconds("gen_ai_workflow_duration_seconds", "Time of runs from where they are taken up until they rest, by OpenTelemetry's conventions.", "error_type"),
	}
	if r == nil {
		return m
	}
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_runs_running", Help: "Runs whose engine runs."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.live))
	})
	for _, c := range []prometheus.Collector{m.rests, m.turns, m.calls, m.took, running} {
		if err := r.Register(c); err != nil {
			s.opts.Log.Warn("metric not registered", "error", err)
		}
	}
	return m
}

func (m *metrics) rested(stop Stop) {
	m.rests.WithLabelValues(string(stop.Phase), string(stop.Code)).Inc()
}

func (m *metrics) called(code fault.Code) {
	m.calls.WithLabelValues(cmp.Or(string(code), "ok")).Inc()
}
