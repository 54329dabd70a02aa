package ask

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the figures of requests to agents for operators.
type metrics struct {
	dropped *prometheus.CounterVec // messages of agents without an open request
	retries prometheus.Counter
}

// Why a message of an agent was dropped.
const (
	dropMalformed = "malformed" // not an envelope, and without a reference to a request
	dropUnknown   = "unknown"   // late, repeated, or with an unknown id
	dropForeign   = "foreign"   // from an agent that was not asked
	dropEvent     = "event"     // an event that is not part of the protocol
)

func newMetrics(r prometheus.Registerer, s *Service) (*metrics, error) {
	m := &metrics{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_agent_messages_dropped_total",
			Help: "Messages of agents that no call waited for, by reason.",
		}, []string{"reason"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aibridge_skill_retries_total",
			Help: "Calls that were sent to another provider because the first gave no answer.",
		}),
	}
	if r == nil {
		return m, nil
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_agent_requests_open", Help: "Requests that agents have not answered yet.",
	}, func() float64 { return float64(s.Open()) })
	return m, errors.Join(r.Register(m.dropped), r.Register(m.retries), r.Register(open))
}
