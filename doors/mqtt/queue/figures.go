package queue

import "github.com/prometheus/client_golang/prometheus"

// figures are the metrics of the lines.
type figures struct{ k *Keeper }

var (
	messagesDesc = prometheus.NewDesc("aibridge_queue_messages", "Messages in a queue, of all spaces: those that wait, and those that workers have not acknowledged.", []string{"queue"}, nil)
	bytesDesc    = prometheus.NewDesc("aibridge_queue_bytes", "Bytes of the messages in a queue, of all spaces.", []string{"queue"}, nil)
)

// Describe implements [prometheus.Collector].
func (f figures) Describe(out chan<- *prometheus.Desc) { out <- messagesDesc; out <- bytesDesc }

// Collect implements [prometheus.Collector].
func (f figures) Collect(out chan<- prometheus.Metric) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	type sum struct{ messages, bytes int }
	sums := make(map[string]sum, len(f.k.queues))
	for name := range f.k.queues {
		sums[name] = sum{}
	}
	for key, l := range f.k.lines {
		s := sums[key.queue]
		sums[key.queue] = sum{s.messages + l.in.messages, s.bytes + l.in.bytes}
	}
	for name, s := range sums {
		out <- prometheus.MustNewConstMetric(messagesDesc, prometheus.GaugeValue, float64(s.messages), name)
		out <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(s.bytes), name)
	}
}
