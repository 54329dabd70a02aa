package quota

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestRecordsAreBoundedByPartyAndSpace(t *testing.T) {
	w := newWorld(t, Options{Records: RecordLimits{Device: 3, Operator: 5, Space: 9}})
	r := w.Records()
	lamp := protocol.Party{Kind: protocol.KindAgent, Space: "home", ID: "lamp"}
	for _, step := range []struct {
		who  protocol.Party
		want int
		of   string
	}{
		{lamp, 3, ofPrincipal},
		{protocol.Party{Kind: protocol.KindOperator, Space: "home", ID: "lamp"}, 5, ofPrincipal},
		{protocol.Party{Kind: protocol.KindSkill, Space: "home", ID: "fan"}, 1, ofSpace},
		{protocol.Party{Space: "home"}, 0, ofSpace}, // nobody's
		{protocol.Party{Kind: protocol.KindAgent, Space: "shop", ID: "lamp"}, 3, ofPrincipal},
	} {
		n := 0
		err := r.Reserve(step.who)
		for ; err == nil; err = r.Reserve(step.who) {
			n++
		}
		if n != step.want || err.Code != protocol.LimitReached || err.Details["of"] != step.of {
			t.Errorf("%v has %d, then %v %v; want %d, then the limit of the %s", step.who, n, err, err.Details, step.want, step.of)
		}
	}
	r.Count(lamp, -1)
	if err := r.Reserve(lamp); err != nil {
		t.Errorf("what was taken away makes no room: %v", err)
	}
	bridge := protocol.Party{Kind: protocol.KindBridge, ID: "aibridge"}
	for range 20 {
		if err := r.Reserve(bridge); err != nil {
			t.Fatal(err)
		}
	}
}
