package estate

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/protocol"
)

// TestABridgeOfWhichALaterRunIsKnownDoesNotStart has one be known by a number that
// its clock has not reached.
func TestABridgeOfWhichALaterRunIsKnownDoesNotStart(t *testing.T) {
	w := newWorld(t, 0)
	p := &process{w: w, node: cluster.Node{ID: "a", Epoch: 7}}
	w.records["a"], w.revision["a"] = &Record{Holder: cluster.Node{ID: "b", Epoch: 1}, Run: 7}, 1
	p.estates = New(Options{Records: p, Members: p})
	err := p.estates.Take(t.Context())
	if protocol.CodeOf(err) != protocol.StoreUnavailable || !strings.Contains(err.Error(), "it says 1970-01-01T00:00:00Z") || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("it took its estate: %v", err)
	}
	p.node.Epoch = 8
	if err := p.estates.Take(t.Context()); err != nil || *w.records["a"] != (Record{Holder: p.node, Run: 8}) {
		t.Errorf("with a higher epoch: %v, %+v", err, w.records["a"])
	}
}
