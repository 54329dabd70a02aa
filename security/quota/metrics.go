package quota

import "github.com/prometheus/client_golang/prometheus"

// metrics are a keeper's metrics. They do not name the refused:
// there may be many.
type metrics struct {
	refusals *prometheus.CounterVec
	open     prometheus.GaugeFunc
}

func newMetrics(k *Keeper) *metrics {
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_quota_refusals_total",
			Help: "What was refused because a limit was reached, by limit (requests, refusals, messages, bytes, connections, retained, retained_bytes, sessions, records) and whose it is (principal, space).",
		}, []string{"limit", "of"}),
		open: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_quota_accounts", Help: "Principals and spaces of which it is counted what they take.",
		}, func() float64 { return float64(k.accounts()) }),
	}
	for _, limit := range kinds {
		for _, whose := range []string{ofPrincipal, ofSpace} {
			m.refusals.WithLabelValues(string(limit), whose)
		}
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.refusals, m.open}
}

func (m *metrics) refused(limit kind, whose string) {
	m.refusals.WithLabelValues(string(limit), whose).Inc()
}
