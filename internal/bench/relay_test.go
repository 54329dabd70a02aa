//go:build linux

package bench

import (
	"testing"
	"time"
)

func TestRelayLoadsAreSound(t *testing.T) {
	t.Parallel()
	for _, s := range relayScenarios() {
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
