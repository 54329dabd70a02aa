package policy

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	hits      atomic.Uint64
	evaluated atomic.Uint64
	failures  prometheus.Counter
	reloads   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, e *Engine) (*metrics, error) {
	m := &metrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_policy_failures_total", Help: "Policies that failed when they were asked."}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_policy_loads_total", Help: "Texts of policies that were loaded, by result: ok or broken."}, []string{"result"}),
	}
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("broken")
	if r == nil {
		return m, nil
	}
	counter := func(n *atomic.Uint64) func() float64 { return func() float64 { return float64(n.Load()) } }
	for _, c := range []prometheus.Collector{
		m.failures, m.reloads,
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "aibridge_policy_decisions_kept_total",
			Help: "Decisions that were known already."}, counter(&m.hits)),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "aibridge_policy_decisions_made_total",
			Help: "Decisions for which policies were asked."}, counter(&m.evaluated)),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_policies",
			Help: "Policies in force."}, func() float64 { return float64(len(e.program.Load().rules)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_policy_broken",
			Help: "Texts of policies that are broken, so that an older one is in force, or none."}, func() float64 { return float64(e.broken()) }),
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
	}
	return m, nil
}
