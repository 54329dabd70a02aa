package app_test

import (
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestABridgeThatStopsSendsItsClientsToTheOthers stops one of two bridges that
// work, under a client.
func TestABridgeThatStopsSendsItsClientsToTheOthers(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	onB := b.Caller(t, "caller")
	eventually.Holds(t, "b knows that a works", func() bool {
		all := members(t, onB)
		return len(all) == 2 && all[0].Ready && all[0].Addresses["mqtt"] == a.MQTT
	})
	client := b.Connect(t, "client")
	b.Stop(t)
	told := <-client.Dismissed
	if told.ReasonCode != 0x9D || told.Properties == nil || told.Properties.ServerReference != a.MQTT {
		t.Errorf("the client is told %+v %+v", told, told.Properties)
	}
	onA := a.Caller(t, "caller")
	eventually.Holds(t, "b has left", func() bool { return len(members(t, onA)) == 1 })
}
