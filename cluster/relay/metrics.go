package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count relayed messages, their frames and bytes, and errors.
type metrics struct {
	frames, bytes, failed, received, dropped, resyncs prometheus.Counter
}

func newMetrics(r *Relay) *metrics {
	count := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_relay_" + name + "_total", Help: help})
		if r.o.Registerer != nil {
			r.o.Registerer.MustRegister(c)
		}
		return c
	}
	m := &metrics{
		frames:   count("frames_sent", "Frames sent to other bridges."),
		bytes:    count("bytes_sent", "Bytes sent to other bridges."),
		failed:   count("frames_failed", "Frames that could not be sent to another bridge, and are sent again."),
		received: count("messages_received", "Messages that came from other bridges."),
		dropped:  count("messages_dropped", "Messages that another bridge does not get because it has not taken those before."),
		resyncs:  count("resyncs", "Times another bridge was asked anew what its clients subscribe to."),
	}
	if r.o.Registerer != nil {
		r.o.Registerer.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_relay_peers", Help: "Bridges that messages are relayed to."}, func() float64 {
				return float64(len(r.Peers()))
			}),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aibridge_relay_queue_bytes", Help: "Bytes that other bridges have not accepted."}, func() float64 {
				return float64(r.Queued())
			}),
			ofPeers{r},
		)
	}
	return m
}

// ofPeers are the metrics of each of the other bridges.
type ofPeers struct{ r *Relay }

var (
	peerQueue   = prometheus.NewDesc("aibridge_relay_peer_queue_bytes", "Bytes that a bridge has not accepted.", []string{"peer"}, nil)
	peerUnheard = prometheus.NewDesc("aibridge_relay_peer_unheard_seconds", "Age of the oldest announcement, or message of a part, that a bridge has not accepted: clients that subscribe or connect may wait for it.", []string{"peer"}, nil)
	peerLag     = prometheus.NewDesc("aibridge_relay_peer_lag_seconds", "For how long a bridge that was sent something has accepted nothing.", []string{"peer"}, nil)
)

// Describe implements [prometheus.Collector].
func (o ofPeers) Describe(to chan<- *prometheus.Desc) {
	to <- peerQueue
	to <- peerLag
	to <- peerUnheard
}

// Collect implements [prometheus.Collector].
func (o ofPeers) Collect(to chan<- prometheus.Metric) {
	for _, p := range o.r.Peers() {
		to <- prometheus.MustNewConstMetric(peerQueue, prometheus.GaugeValue, float64(p.Queued), p.ID)
		to <- prometheus.MustNewConstMetric(peerLag, prometheus.GaugeValue, p.Lag.Seconds(), p.ID)
		to <- prometheus.MustNewConstMetric(peerUnheard, prometheus.GaugeValue, p.Unheard.Seconds(), p.ID)
	}
}

// A PeerStatus is the state of the streams between this bridge and another one.
type PeerStatus struct {
	Node
	Open     bool          // messages flow
	Waits    bool          // its sessions are not served
	Queued   int           // bytes not yet accepted by it
	Dropped  uint64        // messages that it did not get
	Received uint64        // bytes from it
	Lag      time.Duration // time without acceptance of any queued byte
	// Unheard is the age of the oldest announcement, or message of a part, that it has not
	// accepted: clients here that subscribe or connect may wait for it.
	Unheard time.Duration
}

// Queued is the number of bytes that other bridges have not accepted.
func (r *Relay) Queued() (bytes int) {
	for _, p := range r.Peers() {
		bytes += p.Queued
	}
	return bytes
}

// Peers returns the state of the streams with all other bridges.
func (r *Relay) Peers() []PeerStatus {
	var all []PeerStatus
	for _, p := range r.all() {
		p.mu.Lock()
		all = append(all, PeerStatus{
			Node: Node{p.id, p.epoch}, Open: p.state == open, Waits: p.waits, Queued: p.queued(), Dropped: p.dropped,
			Received: p.messages.in.received + p.control.in.received, Lag: p.lag(), Unheard: p.unheard(),
		})
		p.mu.Unlock()
	}
	return all
}
