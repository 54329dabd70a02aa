package relay

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/bubble"
)

// TestWhoIsToldThatAllKnowIsHeardByAll has clients subscribe at three bridges:
// at the moment a subscription is acknowledged, each of the others knows of it.
func TestWhoIsToldThatAllKnowIsHeardByAll(t *testing.T) {
	toldWhenAllKnow(t, nil)
}

func toldWhenAllKnow(t *testing.T, lined func() *lines) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				names := []string{"a", "b", "c", "d"}
				w := worldOf(lined, t, seed, names...)
				w.loss = int(seed % 4 * 8)
				roll := rand.New(rand.NewPCG(seed, 3))
				var answered atomic.Int32
				for i := range 400 {
					w.subscribe(names[roll.IntN(len(names))], fmt.Sprintf("topic/%d", i), &answered)
					if roll.IntN(3) == 0 {
						time.Sleep(time.Duration(roll.IntN(30)) * time.Millisecond)
					}
					w.harm(roll, names)
				}
				w.heal()
				w.agree()
				time.Sleep(30 * time.Second)
				if answered.Load() == 0 {
					t.Error("nobody was ever told")
				}
				for _, p := range w.running() {
					if !p.relay.Ready() {
						t.Errorf("%s is not ready when all is well: %+v", p.h.id, p.relay.Peers())
					}
				}
				w.close()
			})
		})
	}
}

func (w *world) subscribe(name, topic string, answered *atomic.Int32) {
	p := w.process(name)
	if p == nil {
		return
	}
	p.relay.Subscribed(broker.Interest{Space: "home", Filter: topic})
	serving := make(map[*process]bool) // who could publish when it was asked
	for _, other := range w.running() {
		serving[other] = other.relay.Ready()
	}
	a := new(answer)
	a.then = func() {
		answered.Add(1)
		for _, other := range w.running() {
			if other == p || !serving[other] || w.process(name) != p || other.relay.peer(name) == nil {
				continue
			}
			if away := other.relay.Away(topic, false, "home"); away == nil || len(away.Peers) != 1 {
				w.t.Errorf("%s acknowledged %s, and %s does not know of it", name, topic, other.h.id)
			}
		}
	}
	p.relay.Announced(a)
}
