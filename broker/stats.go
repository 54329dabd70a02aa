package broker

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker/packet"
)

// counts holds a turn's counts since its last end.
type counts struct {
	received, sent          [3]uint64 // PUBLISH by QoS
	dropped, refused, wills uint64
	overflowed, unwanted    uint64
	connects                uint64
}

// stats are the broker's counters.
type stats struct {
	b                       *Broker
	received, sent          [3]atomic.Uint64
	dropped, refusedPublish atomic.Uint64
	overflowed, unwanted    atomic.Uint64
	wills, connects         atomic.Uint64
	slow                    atomic.Int64       // clients that do not keep up
	disconnects, refusals   [256]atomic.Uint64 // by reason

	mu    sync.Mutex
	doors []*door
}

// A door is one listener's counters.
type door struct {
	name                 string
	open                 atomic.Int64
	accepted, turnedAway atomic.Uint64
	bytesIn, bytesOut    atomic.Uint64
}

func (s *stats) init(b *Broker) {
	s.b = b
	if b.options.Registerer != nil {
		if err := b.options.Registerer.Register(s); err != nil {
			b.log.Warn("broker metrics are not registered", "error", err)
		}
	}
}

// door returns the counters of a listener.
func (s *stats) door(name string) *door {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.doors {
		if d.name == name {
			return d
		}
	}
	d := &door{name: name}
	s.doors = append(s.doors, d)
	return d
}

func (s *stats) allDoors() []*door {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*door(nil), s.doors...)
}

// add moves a turn's counts into the totals.
func (s *stats) add(c *counts) {
	for q := range 3 {
		if c.received[q] != 0 {
			s.received[q].Add(c.received[q])
		}
		if c.sent[q] != 0 {
			s.sent[q].Add(c.sent[q])
		}
	}
	if c.dropped|c.refused|c.overflowed|c.unwanted|c.wills|c.connects != 0 {
		s.dropped.Add(c.dropped)
		s.refusedPublish.Add(c.refused)
		s.overflowed.Add(c.overflowed)
		s.unwanted.Add(c.unwanted)
		s.wills.Add(c.wills)
		s.connects.Add(c.connects)
	}
	*c = counts{}
}

func (s *stats) disconnected(reason packet.Reason) { s.disconnects[reason].Add(1) }
func (s *stats) refused(reason packet.Reason)      { s.refusals[reason].Add(1) }

const namespace = "aibridge_mqtt_"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+name, help, labels, nil)
}

// Describe implements prometheus.Collector: the metrics are unchecked, since
// listeners come and go.
func (s *stats) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *stats) Collect(out chan<- prometheus.Metric) {
	counter := func(name, help string, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc(name, help, labelNames(name)...), prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(name, help string, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc(name, help, labelNames(name)...), prometheus.GaugeValue, v, labels...)
	}
	for q := range 3 {
		counter("received_total", "Messages that clients published.", s.received[q].Load(), fmt.Sprint(q))
		counter("sent_total", "Messages sent to clients.", s.sent[q].Load(), fmt.Sprint(q))
	}
	counter("dropped_total", "Messages dropped because a client's queue was full.", s.dropped.Load())
	counter("overflowed_total", "Messages of QoS 1 and 2 refused because there was no room in the queue of anybody they were for.", s.overflowed.Load())
	counter("unwanted_total", "Messages that did not fit the condition of a subscription, by subscriber.", s.unwanted.Load())
	counter("refused_total", "Messages refused by permissions.", s.refusedPublish.Load())
	counter("wills_total", "Wills published.", s.wills.Load())
	for r := range 256 {
		if n := s.disconnects[r].Load(); n > 0 {
			counter("disconnects_total", "Connections ended by the server, by reason.", n, packet.Reason(r).String())
		}
		if n := s.refusals[r].Load(); n > 0 {
			counter("connects_refused_total", "Connections refused, by reason.", n, packet.Reason(r).String())
		}
	}
	for _, d := range s.allDoors() {
		gauge("connections", "Open connections.", float64(d.open.Load()), d.name)
		counter("accepted_total", "Connections accepted.", d.accepted.Load(), d.name)
		counter("turned_away_total", "Connections for which there was no room.", d.turnedAway.Load(), d.name)
		counter("bytes_received_total", "Bytes received.", d.bytesIn.Load(), d.name)
		counter("bytes_sent_total", "Bytes sent.", d.bytesOut.Load(), d.name)
	}
	n := s.b.counters()
	gauge("clients", "Connected clients.", float64(n.clients))
	gauge("slow_clients", "Connected clients for which messages have been waiting for more than ten seconds.", float64(s.slow.Load()))
	gauge("sessions", "Sessions, connected or kept.", float64(n.sessions))
	gauge("subscriptions", "Subscriptions.", float64(n.subscriptions))
	gauge("retained", "Retained messages.", float64(n.retained))
}

func labelNames(metric string) []string {
	switch metric {
	case "received_total", "sent_total":
		return []string{"qos"}
	case "disconnects_total", "connects_refused_total":
		return []string{"reason"}
	case "connections", "accepted_total", "turned_away_total", "bytes_received_total", "bytes_sent_total":
		return []string{"listener"}
	}
	return nil
}

type totals struct{ clients, sessions, subscriptions, retained int }

func (b *Broker) counters() totals {
	b.mu.Lock()
	n := totals{clients: int(b.connected.Load()), sessions: len(b.sessions)}
	b.mu.Unlock()
	b.index.mu.RLock()
	n.subscriptions = b.index.count
	b.index.mu.RUnlock()
	n.retained = b.retained.len()
	return n
}
