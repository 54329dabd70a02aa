package link

import "github.com/prometheus/client_golang/prometheus"

// metrics count the messages of links.
type metrics struct{ messages *prometheus.CounterVec }

func newMetrics(s *Service) *metrics {
	m := &metrics{messages: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_link_messages_total", Help: "Messages of links to other brokers, by direction and what became of them.",
	}, []string{"link", "direction", "outcome"})}
	if s.Registerer != nil {
		s.Registerer.MustRegister(m.messages, s)
	}
	return m
}

func (m *metrics) count(link string, outbound bool, outcome string) {
	m.messages.WithLabelValues(link, directionName(outbound), outcome).Inc()
}

func directionName(outbound bool) string {
	if outbound {
		return "out"
	}
	return "in"
}

var (
	upDesc       = prometheus.NewDesc("aibridge_link_connected", "Whether a link to another broker is connected, 1 or 0.", []string{"link"}, nil)
	waitingDesc  = prometheus.NewDesc("aibridge_link_waiting", "Messages that wait for the remote broker of a link.", []string{"link"}, nil)
	bytesDesc    = prometheus.NewDesc("aibridge_link_waiting_bytes", "Topics and payloads of the messages that wait for the remote broker of a link.", []string{"link"}, nil)
	droppedDesc  = prometheus.NewDesc("aibridge_link_dropped_total", "Messages for the remote broker of a link that found its queue full.", []string{"link"}, nil)
	lossesDesc   = prometheus.NewDesc("aibridge_link_losses_total", "Connections of a link that were lost.", []string{"link"}, nil)
	descriptions = []*prometheus.Desc{upDesc, waitingDesc, bytesDesc, droppedDesc, lossesDesc}
)

// Describe implements [prometheus.Collector].
func (s *Service) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. A bridge of a cluster that does not
// run the links says nothing of them.
func (s *Service) Collect(to chan<- prometheus.Metric) {
	if !s.working.Load() {
		return
	}
	for _, l := range s.links {
		v, session := l.look()
		up := 0.0
		if v.State == Connected {
			up = 1
		}
		to <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, v.Name)
		to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(session.Queued+session.Inflight), v.Name)
		to <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(session.Bytes), v.Name)
		to <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(session.Dropped), v.Name)
		to <- prometheus.MustNewConstMetric(lossesDesc, prometheus.CounterValue, float64(v.Lost), v.Name)
	}
}
