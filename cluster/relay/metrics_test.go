package relay

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/bubble"
)

// TestItIsMeasuredWhoDoesNotAccept cuts the way to one of two bridges that are sent
// something.
func TestItIsMeasuredWhoDoesNotAccept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, "a", "b", "c")
		registry := prometheus.NewRegistry()
		registry.MustRegister(ofPeers{w.process("a").relay})
		measured := func(name, peer string) float64 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.Metric {
					if f.GetName() == name && m.Label[0].GetValue() == peer {
						return m.GetGauge().GetValue()
					}
				}
			}
			t.Fatalf("%s of %s is not measured", name, peer)
			return 0
		}
		time.Sleep(time.Second)
		w.mu.Lock()
		w.cut[[2]string{"a", "b"}] = true
		w.mu.Unlock()
		for i := range uint64(100) {
			for _, to := range []string{"b", "c"} {
				w.process("a").relay.peer(to).Send(broker.Outgoing{Encoded: append([]byte{byte(i), 0, 0, 0, 0, 0, 0, 0}, padding...), QoS: 1})
			}
			w.process("a").relay.Flush()
			time.Sleep(100 * time.Millisecond)
		}
		if lag, queue := measured("aibridge_relay_peer_lag_seconds", "b"), measured("aibridge_relay_peer_queue_bytes", "b"); lag < 9 || lag > 11 || queue < 20_000 {
			t.Errorf("who accepts nothing for 10 s has a lag of %v s, and %v bytes wait", lag, queue)
		}
		if lag := measured("aibridge_relay_peer_lag_seconds", "c"); lag > 1 {
			t.Errorf("who accepts everything has a lag of %v s", lag)
		}
		w.heal()
		time.Sleep(10 * time.Second)
		if lag, queue := measured("aibridge_relay_peer_lag_seconds", "b"), measured("aibridge_relay_peer_queue_bytes", "b"); lag != 0 || queue != 0 {
			t.Errorf("who has accepted everything has a lag of %v s, and %v bytes wait", lag, queue)
		}
		w.close()
	})
}
