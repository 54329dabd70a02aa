package sessions

import "github.com/prometheus/client_golang/prometheus"

// metrics measure the takeover of sessions and writes to the log.
type metrics struct{ took, writing prometheus.Histogram }

func newMetrics(d *Directory) *metrics {
	histogram := func(name, help string, from float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "aibridge_sessions_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, 14)})
	}
	m := &metrics{
		took:    histogram("takeover_seconds", "How long clients waited whose session came from another bridge.", .001),
		writing: histogram("record_seconds", "How long it took to write who owns sessions.", .0002),
	}
	if d.o.Registerer == nil {
		return m
	}
	count := func(name, help string, of func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "aibridge_sessions_" + name + "_total", Help: help}, of)
	}
	c := &d.machine.counts
	d.o.Registerer.MustRegister(m.took, m.writing,
		count("taken_over", "Sessions that came from another living bridge.", func() float64 { return float64(c.takeovers.Load()) }),
		count("resumed", "Sessions that another bridge was to take over, and did not.", func() float64 { return float64(c.resumed.Load()) }),
		count("ended_for_others", "Sessions that ended because their client connected to another bridge.", func() float64 { return float64(c.ended.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_sessions_owned", Help: "Sessions of all bridges that outlive their connections."}, func() float64 {
			return float64(c.owned.Load())
		}),
	)
	return m
}
