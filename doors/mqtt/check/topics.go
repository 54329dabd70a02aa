package check

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
)

// Topics counts a server's messages by the filters that cover their topics.
func Topics(server Server, filters []string, registerer prometheus.Registerer) {
	if len(filters) == 0 {
		return
	}
	messages := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_topic_messages_total", Help: "Messages that clients published on the topics of mqtt.topic_metrics, by filter.",
	}, []string{"filter"})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_topic_bytes_total", Help: "Their payloads, in bytes.",
	}, []string{"filter"})
	registerer.MustRegister(messages, bytes)
	for _, filter := range filters {
		n, size := messages.WithLabelValues(filter), bytes.WithLabelValues(filter)
		server.Inspect(filter, func(i *broker.Inspection) broker.Verdict {
			n.Inc()
			size.Add(float64(len(i.Payload)))
			return broker.Verdict{}
		})
	}
}
