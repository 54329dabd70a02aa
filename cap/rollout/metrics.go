package rollout

import "github.com/prometheus/client_golang/prometheus"

// metrics are the figures of rollouts for operators.
type metrics struct {
	members *prometheus.CounterVec
	aborts  prometheus.Counter
}

func newMetrics(r prometheus.Registerer, e *Engine) *metrics {
	m := &metrics{
		members: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aibridge_rollout_members_total", Help: "Members of rollouts that ended, by how."}, []string{"state"}),
		aborts:  prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_rollout_aborts_total", Help: "Rollouts that stopped by themselves."}),
	}
	if r == nil {
		return m
	}
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_rollouts_unfinished", Help: "Rollouts that have not ended, of this bridge."}, func() float64 {
		e.mu.Lock()
		defer e.mu.Unlock()
		return float64(len(e.runs))
	})
	for _, c := range []prometheus.Collector{m.members, m.aborts, running} {
		if err := r.Register(c); err != nil {
			e.opts.Log.Warn("a metric of rollouts is not registered", "error", err)
		}
	}
	return m
}

func (m *metrics) ended(s State) { m.members.WithLabelValues(string(s)).Inc() }

func (m *metrics) aborted() { m.aborts.Inc() }
