package store

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// metrics are what the store tells about itself.
type metrics struct {
	writes  *prometheus.HistogramVec // seconds by op and code
	resyncs prometheus.Counter
	damaged prometheus.Counter
	claims  prometheus.Counter
	all     []prometheus.Collector
}

func newMetrics() *metrics {
	m := &metrics{
		writes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "aibridge_store_write_seconds",
			Help:    "Time from a write's begin to its acknowledgement and appearance in the view.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 2, 18), // 25 µs to 3.3 s
		}, []string{"op", "code"}),
		resyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_resyncs_total",
			Help: "Times the view lost the thread and read the registry anew.",
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_unreadable_total",
			Help: "Stored values that could not be read.",
		}),
		claims: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_store_claims_total",
			Help: "Claims of commands, of which one record holds many.",
		}),
	}
	m.all = []prometheus.Collector{m.writes, m.resyncs, m.damaged, m.claims}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range m.all {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.all {
		r.Unregister(c)
	}
}

// wrote records a write. Its code is "ok" or the protocol's.
func (m *metrics) wrote(op string, began time.Time, err error) {
	code := "ok"
	if err != nil {
		code = string(protocol.CodeOf(err))
	}
	m.writes.WithLabelValues(op, code).Observe(time.Since(began).Seconds())
}
