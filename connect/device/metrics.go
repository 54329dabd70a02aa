package device

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// Metrics count what plain devices do. Nil counts nothing.
type Metrics struct {
	known *prometheus.GaugeVec
	asks  *prometheus.CounterVec
	bad   *prometheus.CounterVec
	not   *prometheus.CounterVec
	gone  *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		known: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aibridge_plain_devices", Help: "Devices on plain topics that are described, by what describes them and space.",
		}, []string{"space", "origin"}),
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_plain_requests_total", Help: "Requests to devices on plain topics, by code of the error, ok without one.",
		}, []string{"origin", "code"}),
		bad: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_plain_unreadable_total", Help: "Messages of devices on plain topics that could not be read as they are described.",
		}, []string{"origin"}),
	}
	m.not = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_plain_refused_total", Help: "Descriptions of devices on plain topics, or parts of them, that were not understood or not allowed.",
	}, []string{"origin"})
	m.gone = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_plain_lost_total", Help: "Messages of devices on plain topics that were not read, as too many waited already.",
	}, []string{"origin"})
	r.MustRegister(m.known, m.asks, m.bad, m.not, m.gone)
	return m
}

func (m *Metrics) devices(origin string, space protocol.SpaceID, n int) {
	if m != nil {
		m.known.WithLabelValues(string(space), origin).Set(float64(n))
	}
}

func (m *Metrics) asked(origin string, err *protocol.Error) {
	if m == nil {
		return
	}
	code := "ok"
	if err != nil {
		code = string(err.Code)
	}
	m.asks.WithLabelValues(origin, code).Inc()
}

func (m *Metrics) unreadable(origin string) {
	if m != nil {
		m.bad.WithLabelValues(origin).Inc()
	}
}

func (m *Metrics) lost(origin string) {
	if m != nil {
		m.gone.WithLabelValues(origin).Inc()
	}
}

// Refused counts a description that is not taken.
func (m *Metrics) Refused(origin string) {
	if m != nil {
		m.not.WithLabelValues(origin).Inc()
	}
}
