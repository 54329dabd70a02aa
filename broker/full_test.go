package broker

import (
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
)

// While nothing new may be stored, what needs no room goes on, publishers of
// the rest are told, and there is nothing left of it once there is room again.
func TestNothingNewIsKeptOnAFullDisk(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		var full atomic.Bool
		n := newNode(t, readers, func(o *Options) { o.Full, o.Journal = full.Load, &MemoryJournal{} })
		n.absent("absent", "x/#")
		from := n.connect(packet.V5, "from")
		retain := func(topic, payload string, want packet.Reason) {
			t.Helper()
			m := text(topic, payload)
			m.QoS, m.Retain = 1, true
			if r := from.publish(m); r != want {
				t.Errorf("retaining %q on %s is answered %v", payload, topic, r)
			}
		}
		retain("r/old", "1", packet.NoMatchingSubscribers)
		from.said("x/y", "before", 1)

		full.Store(true)
		for _, qos := range []byte{1, 2} {
			a := from.said("x/y", "lost", qos)
			if a.Reason != packet.QuotaExceeded || string(a.Properties.Bytes(packet.ReasonString)) != "the bridge's disk is nearly full" {
				t.Errorf("QoS %d is answered %v, %q", qos, a.Reason, a.Properties.Bytes(packet.ReasonString))
			}
		}
		retain("r/new", "1", packet.QuotaExceeded)
		retain("r/old", "2", packet.NoMatchingSubscribers)
		here := n.connect(packet.V5, "here", kept)
		here.subscribe("x/y", 2)
		if a := from.said("x/y", "live", 1); a.Reason != packet.Success {
			t.Errorf("what somebody took is answered %v", a.Reason)
		}
		here.take("live")

		full.Store(false)
		if a := from.said("x/y", "after", 1); a.Reason != packet.Success {
			t.Errorf("there is room again, and yet: %v", a.Reason)
		}
		here.take("after")
		retain("r/new", "3", packet.NoMatchingSubscribers)
		back := n.connect(packet.V5, "absent", kept)
		back.take("before")
		back.take("after")
		back.quiet()
	})
}
