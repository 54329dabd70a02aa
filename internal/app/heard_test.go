package app

import (
	"testing"

	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/protocol"
)

// TestABridgeThatIsNotHeardIsNotReady has another bridge take nothing of what it is told:
// for a moment, then for longer than a verdict takes.
func TestABridgeThatIsNotHeardIsNotReady(t *testing.T) {
	peers := []relay.PeerStatus{{Node: relay.Node{ID: "b"}}, {Node: relay.Node{ID: "c"}, Unheard: unheardAfter}}
	if err := heard(peers); err != nil {
		t.Errorf("too early: %v", err)
	}
	peers[1].Unheard++
	failure := protocol.AsError(heard(peers))
	if failure == nil || failure.Code != protocol.TargetUnavailable || failure.Details["bridge_id"] != "c" {
		t.Errorf("said: %v", failure)
	}
}
