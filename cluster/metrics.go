package cluster

import "github.com/prometheus/client_golang/prometheus"

// counters count the verdicts of this node on others, and its unconfirmed renewals.
type counters struct {
	verdicts    prometheus.Counter
	unconfirmed prometheus.Counter
}

func newCounters() counters {
	return counters{
		verdicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_cluster_verdicts_total",
			Help: "Bridges that this one has declared dead.",
		}),
		unconfirmed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_cluster_renewals_unconfirmed_total",
			Help: "Renewals of this bridge's record that NATS did not confirm in time.",
		}),
	}
}

// Metrics returns the metrics of the cluster as this node sees it.
func (m *Membership) Metrics() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_cluster_" + name, Help: help}, value)
	}
	return []prometheus.Collector{
		m.counters.verdicts, m.counters.unconfirmed,
		gauge("members", "Living bridges of the cluster, as this one knows them.", func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return float64(len(m.members))
		}),
		gauge("lease_age_seconds", "Time since the last renewal of this bridge's record was sent that was confirmed.", func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return (m.now() - m.machine.sent).Seconds()
		}),
		gauge("clock_ahead_seconds", "How far the clock of this bridge's machine is ahead of the time of the cluster, less than 0 for behind.", func() float64 {
			return m.ClockAhead().Seconds()
		}),
		gauge("epoch", "Number of this run of the bridge.", func() float64 { return float64(m.Self().Epoch) }),
		gauge("oldest", "1 if this bridge does what exactly one does.", func() float64 {
			if m.Oldest() {
				return 1
			}
			return 0
		}),
	}
}
