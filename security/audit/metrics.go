package audit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	entries prometheus.Counter
	lost    prometheus.Counter
	repeats prometheus.Counter
	writes  *prometheus.HistogramVec
	all     []prometheus.Collector
}

func newMetrics(t *Trail, r prometheus.Registerer) *metrics {
	m := &metrics{
		entries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_audit_entries_total", Help: "Entries of the audit trail that were stored.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_audit_unrecorded_total",
			Help: "Entries that were not recorded because too many waited; the trail has an entry audit.gap for them.",
		}),
		repeats: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_audit_repeated_total",
			Help: "Refusals that were like one before and are counted in an entry instead of having their own.",
		}),
		writes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aibridge_audit_write_seconds", Help: "Time to ship a group of entries to NATS, where the trail is kept there.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16),
		}, []string{"outcome"}),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_audit_waiting_bytes", Help: "Entries that wait to be stored, in bytes.",
	}, func() float64 { return float64(t.waiting()) })
	problems := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_audit_problems",
		Help: "What is wrong with the audit trail, as found at start or by the last audit.verify; 0 if nothing.",
	}, func() float64 { return float64(t.problems.Load()) })
	m.all = []prometheus.Collector{m.entries, m.lost, m.repeats, m.writes, waiting, problems}
	if r != nil {
		r.MustRegister(m.all...)
	}
	return m
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.all {
		r.Unregister(c)
	}
}

func (m *metrics) wrote(began time.Time, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.writes.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
}
