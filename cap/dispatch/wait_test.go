package dispatch

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A run is let go of right after its end. Who waits for the end and looks only
// then is told of it, and not that the bridge stops.
func TestWhoLooksLateIsToldOfTheEnd(t *testing.T) {
	e := New(Options{})
	defer e.stop()
	for range 64 { // a select with both ready takes either
		r := newRun(e, &Dispatch{ID: "t"}, nil)
		r.commit(&Batch{End: &End{Outcome: Complete}})
		r.letGo()
		if err := r.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := newRun(e, &Dispatch{ID: "t"}, nil)
	r.letGo()
	if err := r.wait(t.Context()); protocol.CodeOf(err) != protocol.ShuttingDown {
		t.Errorf("without an end: %v", err)
	}
}
