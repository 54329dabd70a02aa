package entities

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// Metrics count the skills and commands of Home Assistant. Nil counts nothing.
type Metrics struct {
	skills   *prometheus.GaugeVec
	commands *prometheus.CounterVec
	reads    *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		skills: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aibridge_entity_skills", Help: "Skills that Home Assistant is shown, by space.",
		}, []string{"space"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_entity_commands_total", Help: "Commands of Home Assistant to skills, by code of the error, ok without one.",
		}, []string{"code"}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_entity_unread_total", Help: "States for Home Assistant that could not be read, by code of the error.",
		}, []string{"code"}),
	}
	r.MustRegister(m.skills, m.commands, m.reads)
	return m
}

func (m *Metrics) shown(space protocol.SpaceID, n int) {
	if m != nil {
		m.skills.WithLabelValues(string(space)).Set(float64(n))
	}
}

func (m *Metrics) command(err *protocol.Error) {
	switch {
	case m == nil:
	case err == nil:
		m.commands.WithLabelValues("ok").Inc()
	default:
		m.commands.WithLabelValues(string(err.Code)).Inc()
	}
}

func (m *Metrics) read(err error) {
	if m != nil {
		m.reads.WithLabelValues(string(protocol.CodeOf(err))).Inc()
	}
}
