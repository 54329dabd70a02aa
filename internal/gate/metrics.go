package gate

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters count what was refused since the start.
type counters struct {
	turnedAway, cutOff atomic.Uint64
}

// Metrics are for Prometheus.
func (g *Gate) Metrics() []prometheus.Collector {
	open := func(state string, n func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_connections_open", Help: "Open connections by all doors, with (known) and without (stranger) a credential shown.",
			ConstLabels: prometheus.Labels{"state": state},
		}, n)
	}
	refused := func(how string, n *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "aibridge_connections_refused_total", Help: "Connections turned away at once, or cut off before they showed a credential, because there were too many.",
			ConstLabels: prometheus.Labels{"how": how},
		}, func() float64 { return float64(n.Load()) })
	}
	return []prometheus.Collector{
		open("stranger", func() float64 { return float64(g.countStrangers()) }),
		open("known", func() float64 { return float64(g.places.Used()) }),
		refused("turned_away", &g.turnedAway), refused("cut_off", &g.cutOff),
	}
}

func (g *Gate) countStrangers() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.strangers.Len()
}
