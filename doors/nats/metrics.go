package nats

import "github.com/prometheus/client_golang/prometheus"

// The fates of a message between NATS and MQTT.
const (
	carried   = "carried"
	refused   = "refused"   // by policy or by a limit
	nowhere   = "nowhere"   // NATS is away, or the broker
	unnamable = "unnamable" // its subject has no topic, or its topic no subject
	looped    = "looped"    // it has been here before
)

// Ways of messages.
const (
	toNATS   = "to_nats"
	fromNATS = "from_nats"
)

type metrics struct{ messages *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_nats_messages_total", Help: "Messages between MQTT topics and NATS subjects, by way and by what became of them.",
	}, []string{"way", "outcome"})}
	if r != nil {
		r.MustRegister(m.messages)
	}
	return m
}

func (m metrics) count(way, outcome string) { m.messages.WithLabelValues(way, outcome).Inc() }
