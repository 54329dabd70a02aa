package mirror

import "github.com/prometheus/client_golang/prometheus"

// Metrics are shared by all mirrors of a process.
type Metrics struct {
	files    *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	failures prometheus.Counter
	pending  prometheus.Gauge
	circuit  *prometheus.GaugeVec
	rounds   prometheus.Histogram
}

// NewMetrics makes and registers them; a nil registerer keeps them private.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_sync_files_total", Help: "Files that a sync changed, by what was done.",
		}, []string{"action"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_sync_bytes_total", Help: "Content that was transferred, by what was done.",
		}, []string{"action"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_sync_failures_total", Help: "Attempts on single files that failed and will be repeated.",
		}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aibridge_sync_pending", Help: "Files that are to be looked at or transferred.",
		}),
		circuit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aibridge_sync_circuit", Help: "1 for the state the way to the VFS of a space is in: closed (good), half_open or open.",
		}, []string{"space", "state"}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aibridge_sync_round_seconds", Help: "How long rounds of a sync take.",
			Buckets: []float64{.001, .01, .1, 1, 10, 100, 1000},
		}),
	}
	if r != nil {
		r.MustRegister(m.files, m.bytes, m.failures, m.pending, m.circuit, m.rounds)
	}
	return m
}

// Circuit notes the state of the way to the VFS of a space. It fits LinkOptions.OnChange.
func (m *Metrics) Circuit(space string) func(Circuit) {
	set := func(now Circuit) {
		for _, c := range []Circuit{CircuitClosed, CircuitHalfOpen, CircuitOpen} {
			value := 0.0
			if c == now {
				value = 1
			}
			m.circuit.WithLabelValues(space, string(c)).Set(value)
		}
	}
	set(CircuitClosed)
	return set
}

// The kinds of counted files.
const (
	uploads   = "upload"
	downloads = "download"
	deletions = "delete"
	conflicts = "conflict"
)

// count notes something done to a file.
func (e *Engine) count(what string, size int64) {
	e.o.Metrics.files.WithLabelValues(what).Inc()
	if size > 0 {
		e.o.Metrics.bytes.WithLabelValues(what).Add(float64(size))
	}
	e.mu.Lock()
	e.moved++
	e.mu.Unlock()
}
