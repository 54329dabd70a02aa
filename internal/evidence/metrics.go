package evidence

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the figures of the log about itself.
type metrics struct {
	claims prometheus.Counter
	took   prometheus.Observer
	failed prometheus.Counter
	all    []prometheus.Collector
}

func newMetrics(l *Log) *metrics {
	claims := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aibridge_claims_total",
		Help: "Claims of commands written to the log of evidence.",
	})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "aibridge_claims_write_seconds",
		Help:    "Time to write a batch of claims and entries, and with sync: always to sync it.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 4, 12), // 1 µs to 4.2 s
	})
	failed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aibridge_claims_write_failures_total",
		Help: "Batches of claims and entries that could not be written.",
	})
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_claims_bytes",
		Help: "What claims and entries take on disk, in segments with claims that may be of use.",
	}, func() float64 { return float64(l.claimed.Load()) })
	all := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_evidence_bytes",
		Help: "What claims and entries of the audit trail take on disk.",
	}, func() float64 { return float64(l.used.Load()) })
	return &metrics{claims, took, failed, []prometheus.Collector{claims, took, failed, size, all}}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for i, c := range m.all {
		if err := r.Register(c); err != nil {
			for _, c := range m.all[:i] {
				r.Unregister(c)
			}
			return err
		}
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.all {
		r.Unregister(c)
	}
}

// wrote records a batch.
func (m *metrics) wrote(claims int, began time.Time, err error) {
	if err != nil {
		m.failed.Inc()
		return
	}
	m.claims.Add(float64(claims))
	m.took.Observe(time.Since(began).Seconds())
}
