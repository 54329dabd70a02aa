package relay

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/routes"
	"github.com/aibridge/aibridge/internal/bubble"
)

// TestATableThatDisagreesIsMended has a bridge take a batch that the other never
// sent, in the place of one that it did. The sum that is told every ten seconds
// finds that, and everything is told anew.
func TestATableThatDisagreesIsMended(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, "a", "b")
		a, b := w.process("a").relay, w.process("b").relay
		subscribe := func(topic string) {
			b.Subscribed(broker.Interest{Space: "home", Filter: topic})
			time.Sleep(time.Second)
		}
		knows := func(topic string) bool { return a.Away(topic, false, "home") != nil }
		subscribe("before")
		forged := b.announcer.Check()
		forged.Seq++
		forged.Wild = []routes.WildChange{{Space: "home", Filter: "wrong/#"}}
		_ = a.table.Apply("b", &forged)
		subscribe("after")
		if !knows("before") || knows("after") || !knows("wrong/topic") {
			t.Fatal("the table is not as it is to be")
		}
		time.Sleep(checkEvery + time.Second)
		if !knows("before") || !knows("after") || knows("wrong/topic") {
			t.Error("the table is not mended")
		}
		if n := counted(a.metrics.resyncs); n != 1 {
			t.Errorf("%v snapshots were asked for", n)
		}
		w.close()
	})
}

// counted is how far a counter is.
func counted(c prometheus.Counter) float64 {
	var m dto.Metric
	_ = c.Write(&m)
	return m.GetCounter().GetValue()
}
