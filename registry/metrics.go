package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what operators see of the registry.
type metrics struct {
	dropped     *prometheus.CounterVec // what agents sent and nobody waited for
	transitions *prometheus.CounterVec
	retries     prometheus.Counter
	unreadable  prometheus.Counter
}

// Why a message of an agent was dropped.
const (
	dropMalformed = "malformed" // not an envelope, and nothing says what it answers
	dropUnknown   = "unknown"   // nobody waits for it: late, repeated, or never asked for
	dropForeign   = "foreign"   // from an agent that was not asked
	dropEvent     = "event"     // an event that is not part of the protocol
)

func newMetrics(r prometheus.Registerer, s *Service) (*metrics, error) {
	m := &metrics{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_agent_messages_dropped_total",
			Help: "Messages of agents that no call waited for, by reason.",
		}, []string{"reason"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_agent_transitions_total",
			Help: "How often agents came and went.",
		}, []string{"status"}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_agent_answers_unreadable_total",
			Help: "Answers of agents and endpoints that could not be read.",
		}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_skill_retries_total",
			Help: "Calls that were sent to another provider because the first gave no answer.",
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
		m.dropped, m.transitions, m.retries, m.unreadable,
		gauge("aibridge_agents", "Registered agents.", s.opts.Agents.Len),
		gauge("aibridge_agents_online", "Agents that are online.", s.board.onlineCount),
		gauge("aibridge_skills", "Registered skills.", s.opts.Skills.Len),
		gauge("aibridge_resources", "Registered resources.", s.opts.Resources.Len),
		gauge("aibridge_agent_requests_open", "Requests that agents have not answered yet.", s.exchanges.open),
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) transition(online bool) {
	m.transitions.WithLabelValues(string(statusOf(online))).Inc()
}
