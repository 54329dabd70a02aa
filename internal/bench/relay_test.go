//go:build linux

package bench

import (
	"net/netip"
	"testing"
	"time"
)

func TestRelayLoadsAreSound(t *testing.T) {
	t.Parallel()
	for _, s := range append(relayScenarios(), spreadScenarios()...) {
		if err := s.check(); err != nil {
			t.Error(err)
		}
	}
}

// TestReceiversConnectElsewhereIfTold has publishers at one broker and subscribers at
// another one, which does not know of the first.
func TestReceiversConnectElsewhereIfTold(t *testing.T) {
	here, there := inProcess(t, KindBroker), inProcess(t, KindBroker)
	s := Scenario{Name: "relay", Shape: Flow, Publishers: 2, Subscribers: 2, Pairs: true, QoS: 1, Payload: 256, Window: 4}
	here.hears = here.address
	got, err := measure(t.Context(), s, here, tiny(20))
	if err != nil || !got.Clean() || got.Received != 20 {
		t.Errorf("received at the same broker: %+v %v", got, err)
	}
	here.hears = there.address
	o := tiny(20)
	o.Patience = time.Second // nothing comes, however long one waits
	got, err = measure(t.Context(), s, here, o)
	if err != nil || got.Received != 0 || got.Sent != 20 {
		t.Errorf("received at another broker: %+v %v", got, err)
	}
}

// TestClientsSpreadEvenly counts who is where, of publishers and their subscribers.
func TestClientsSpreadEvenly(t *testing.T) {
	t.Parallel()
	var at target
	for port := range uint16(3) {
		at.spread = append(at.spread, netip.AddrPortFrom(netip.IPv6Loopback(), port+1))
	}
	pairs := make(map[[2]netip.AddrPort]int)
	clients := spreadScenarios()[0].Publishers
	for i := range clients {
		pairs[[2]netip.AddrPort{at.at(false, i), at.at(true, i)}]++
	}
	if len(pairs) != 9 {
		t.Errorf("clients are spread over %d pairs of bridges", len(pairs))
	}
	for pair, n := range pairs {
		if n != clients/9 {
			t.Errorf("%d are at %v", n, pair)
		}
	}
}
