package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the figures of the registry for operators.
type metrics struct {
	transitions *prometheus.CounterVec
	unreadable  prometheus.Counter
}

func newMetrics(r prometheus.Registerer, s *Service) (*metrics, error) {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_agent_transitions_total",
			Help: "How often agents came and went.",
		}, []string{"status"}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_agent_answers_unreadable_total",
			Help: "Answers of agents and endpoints that could not be read.",
		}),
	}
	if r == nil {
		return m, nil
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.transitions, m.unreadable,
		gauge("aibridge_agents", "Registered agents.", s.opts.Agents.Len),
		gauge("aibridge_agents_online", "Agents that are online.", s.board.onlineCount),
		gauge("aibridge_skills", "Registered skills.", s.opts.Skills.Len),
		gauge("aibridge_resources", "Registered resources.", s.opts.Resources.Len),
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) transition(online bool) {
	m.transitions.WithLabelValues(string(statusOf(online))).Inc()
}
