package site

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// metrics count the calls of the centre.
type metrics struct{ calls *prometheus.CounterVec }

func newMetrics(s *Site) *metrics {
	m := &metrics{calls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_site_calls_total", Help: "Calls of the centre that this bridge is a site of, by how they ended: ok or a code.",
	}, []string{"code"})}
	if s.Registerer != nil {
		s.Registerer.MustRegister(m.calls, s)
	}
	return m
}

func (m *metrics) called(err error) {
	code := "ok"
	if err != nil {
		code = string(protocol.CodeOf(err))
	}
	m.calls.WithLabelValues(code).Inc()
}

var (
	connectedDesc = prometheus.NewDesc("aibridge_site_connected", "Whether this bridge is connected to the centre that it is a site of, 1 or 0.", nil, nil)
	agentsDesc    = prometheus.NewDesc("aibridge_site_agents", "Agents that the centre has been told of which this bridge is a site of.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (s *Site) Describe(to chan<- *prometheus.Desc) {
	to <- connectedDesc
	to <- agentsDesc
}

// Collect implements [prometheus.Collector]. In a cluster only the bridge that is
// connected to the centre, or tries to be, reports them.
func (s *Site) Collect(to chan<- prometheus.Metric) {
	v, running := s.Look()
	if !running {
		return
	}
	up := 0.0
	if v.State == Connected {
		up = 1
	}
	to <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, up)
	to <- prometheus.MustNewConstMetric(agentsDesc, prometheus.GaugeValue, float64(v.Agents))
}
