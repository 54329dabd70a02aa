package estate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count the estates and sessions of ended bridges, and measure how long
// adoption takes.
type metrics struct {
	seconds                   prometheus.Histogram
	failed                    prometheus.Counter
	bridges, sessions, orphan prometheus.Gauge
}

func newMetrics(to prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "aibridge_cluster_" + name, Help: help})
	}
	m := &metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aibridge_cluster_adoption_seconds", Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30},
			Help: "How long it took until the sessions of a bridge that has ended were served here.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_cluster_adoptions_failed_total", Help: "Times the sessions of a bridge that has ended could not be served, and were tried again.",
		}),
		bridges:  gauge("adopted_bridges", "Bridges that have ended whose sessions are served here."),
		sessions: gauge("adopted_sessions", "Sessions of bridges that have ended which are served here."),
		orphan:   gauge("orphaned_bridges", "Bridges that have ended whose sessions nobody serves, as this bridge sees it."),
	}
	if to != nil {
		to.MustRegister(m.seconds, m.failed, m.bridges, m.sessions, m.orphan)
	}
	return m
}

func (m *metrics) took(d time.Duration) { m.seconds.Observe(d.Seconds()) }

func (m *metrics) tell(orphaned int, held map[string]Server) {
	sessions := 0
	for _, s := range held {
		sessions += s.Count()
	}
	m.orphan.Set(float64(orphaned))
	m.bridges.Set(float64(len(held)))
	m.sessions.Set(float64(sessions))
}
