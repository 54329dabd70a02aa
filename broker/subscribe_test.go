package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.9.3-1] [MQTT-3.9.3-2]
// [MQTT-2.2.1-6] [MQTT-3.8.4-7]
func TestSubackAnswersEveryFilter(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.connect(5, "a")
		got := p.trySubscribe("a", 1, func(s *packet.Subscribe) {
			for _, f := range []string{"forbidden/x", "b/#/c", "$share/g/forbidden/y", "$share/g/z", "c+", "$share/g"} {
				s.Filters = append(s.Filters, packet.Subscription{Filter: []byte(f), QoS: 2})
			}
		})
		want := []packet.Reason{1, packet.NotAuthorized, packet.TopicFilterInvalid, packet.NotAuthorized, 2, packet.TopicFilterInvalid, packet.TopicFilterInvalid}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		old := n.connect(4, "old")
		if got := old.trySubscribe("forbidden/x", 1); !slices.Equal(got, []packet.Reason{0x80}) {
			t.Errorf("3.1.1: %v", got)
		}
	})
}

// In 3.1.1 a malformed filter ends the connection, as every violation does
// [MQTT-4.8.0-1].
func TestMalformedFiltersEndOldConnections(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		for _, filter := range []string{"", "a/#/b", "b#", "a/b#", "a+", "a/+b", "$share/g"} {
			p := n.connect(4, "old")
			p.send((&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte("good")}, {Filter: []byte(filter)}}}).Append(nil, 4))
			p.ended()
			p = n.connect(4, "old")
			p.send((&packet.Unsubscribe{PacketID: 1, Filters: [][]byte{[]byte(filter)}}).Append(nil, 4))
			p.ended()
		}
	})
}

// [MQTT-3.10.4-1] [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6] [MQTT-3.11.3-1] [MQTT-3.11.3-2]
func TestUnsubscribe(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.connect(5, "a")
		p.subscribe("x/#", 0)
		p.subscribe("$share/g/x/#", 0)
		u := packet.Unsubscribe{PacketID: 4, Filters: [][]byte{[]byte("x/#"), []byte("x/y"), []byte("a#"), []byte("$share/g/x/#")}}
		p.send(u.Append(nil, 5))
		var a packet.Suback
		want := []packet.Reason{0, packet.NoSubscriptionExisted, packet.TopicFilterInvalid, 0}
		if err := a.Decode(5, packet.UNSUBACK, p.expect(packet.UNSUBACK)); err != nil || a.PacketID != 4 || !slices.Equal(a.Reasons, want) {
			t.Errorf("%+v %v", a, err)
		}
		p.publish(text("x/y", ""))
		p.quiet()
		if n.counters().subscriptions != 0 {
			t.Error("subscriptions are left")
		}
	})
}

// [MQTT-3.8.4-3] [MQTT-3.8.4-4]
func TestSubscribingAgainReplaces(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "a")
	m := text("x", "kept")
	m.Retain = true
	p.publish(m)
	p.subscribe("x", 0)
	p.take("kept")
	p.subscribe("x", 1)
	p.take("kept") // retain handling 0 sends again
	m = text("x", "1")
	m.QoS = 1
	p.send((&publish{QoS: 1, PacketID: 2, Topic: []byte("x"), Payload: []byte("1")}).Append(nil, 5))
	h, _ := p.packet()
	h2, _ := p.packet()
	if h.Type() == h2.Type() {
		t.Errorf("%v and %v", h.Type(), h2.Type())
	}
	p.quiet()
}

// [MQTT-3.3.4-2] [MQTT-3.3.4-3] [MQTT-3.3.4-4] [MQTT-3.3.4-5]
func TestOverlappingSubscriptionsDeliverOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.connect(5, "a")
		for i, f := range []string{"x/y", "x/#", "+/y", "other"} {
			p.subscribe(f, byte(i%3), func(s *packet.Subscribe) { s.Properties.AddSubscriptionID(uint32(i + 1)) })
		}
		from := n.connect(5, "from")
		m := text("x/y", "hi")
		m.QoS = 2
		from.publish(m)
		got := p.take("hi")
		slices.Sort(got.Properties.SubscriptionIDs)
		if got.QoS != 2 || !slices.Equal(got.Properties.SubscriptionIDs, []uint32{1, 2, 3}) {
			t.Errorf("QoS %d, subscriptions %v", got.QoS, got.Properties.SubscriptionIDs)
		}
		p.quiet()
	})
}

// [MQTT-3.8.3-3] and its meeting with other subscriptions of the client
func TestNoLocal(t *testing.T) {
	n := newNode(t, 1)
	p, other := n.connect(5, "a"), n.connect(5, "b")
	noLocal := func(s *packet.Subscribe) { s.Filters[0].NoLocal = true }
	p.subscribe("x", 0, noLocal)
	p.publish(text("x", "own"))
	p.quiet()
	other.publish(text("x", "other"))
	p.take("other")
	p.subscribe("+", 0)
	p.publish(text("x", "own again"))
	p.take("own again")
	p.quiet()
}

// [MQTT-3.3.1-12] [MQTT-3.3.1-13]
func TestRetainAsPublished(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "a")
	p.subscribe("x", 0)
	p.subscribe("y", 0, func(s *packet.Subscribe) { s.Filters[0].RetainAsPublished = true })
	for _, topic := range []string{"x", "y"} {
		m := text(topic, "1")
		m.Retain = true
		p.publish(m)
		if got := p.take("1"); got.Retain != (topic == "y") {
			t.Errorf("%s: retain %v", topic, got.Retain)
		}
		p.publish(text(topic, "2"))
		if got := p.take("2"); got.Retain {
			t.Errorf("%s: retain on a message without", topic)
		}
	}
}

// [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]
func TestRetainedMessages(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		from := n.connect(5, "from")
		for _, c := range []struct{ topic, payload string }{{"r/1", "old"}, {"r/1", "one"}, {"r/2", "two"}, {"r/3", "three"}, {"r/3", ""}, {"r", "root"}} {
			m := text(c.topic, c.payload)
			m.Retain, m.QoS = true, 1
			from.publish(m)
		}
		for handling, want := range [][2]int{{3, 3}, {3, 0}, {0, 0}} {
			p := n.connect(5, "to")
			for round := range 2 {
				p.subscribe("r/#", 1, func(s *packet.Subscribe) { s.Filters[0].RetainHandling = byte(handling) })
				got := map[string]string{}
				for range want[round] {
					m := p.receive()
					if !m.Retain || m.QoS != 1 {
						t.Errorf("%+v", m)
					}
					p.acknowledge(m)
					got[string(m.Topic)] = string(m.Payload)
				}
				p.quiet()
				if want[round] == 3 && fmt.Sprint(got) != "map[r:root r/1:one r/2:two]" {
					t.Errorf("got %v", got)
				}
			}
			n.leave(p, "to")
		}
		p := n.connect(5, "to") // [MQTT-3.8.4-8], none for shared subscriptions, none through QoS 0 as more
		p.subscribe("$share/g/r/#", 1)
		p.quiet()
		p.subscribe("r/1", 0)
		if m := p.take("one"); m.QoS != 0 {
			t.Errorf("QoS %d", m.QoS)
		}
	})
}

func TestManyRetainedMessagesReachASlowSubscriber(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.OutboxBytes = 10_000; o.Limits.QueueMessages = 10 })
		const many = 3000
		from := n.connect(5, "from")
		for i := range many {
			m := publish{Topic: fmt.Appendf(nil, "r/%d", i), Payload: make([]byte, 100), Retain: true, QoS: byte(i % 2), PacketID: 1}
			from.publish(m)
		}
		p := n.connect(5, "to", property(packet.ReceiveMaximum, 5))
		p.subscribe("#", 1)
		seen := map[string]bool{}
		for range many {
			m := p.receive()
			p.acknowledge(m)
			seen[string(m.Topic)] = true
		}
		if len(seen) != many {
			t.Errorf("%d of %d", len(seen), many)
		}
		p.quiet()
	})
}

// [MQTT-4.7.2-1] [MQTT-4.7.1-2] [MQTT-4.7.1-3]
func TestDollarTopicsAreHiddenFromWildcards(t *testing.T) {
	n := newNode(t, 1, tenants, func(o *Options) { o.SysInterval, o.Version = 0, "1.2.3" })
	eventually.Holds(t, "$SYS is there", func() bool { return n.counters().retained > 5 })
	p := n.connect(5, "a", as("admin"))
	p.subscribe("#", 0)
	p.subscribe("+/broker/version", 0)
	p.publish(text("$x/y", ""))
	p.quiet()
	p.subscribe("$SYS/broker/version", 0)
	p.take("aibridge version 1.2.3")
	tenant := n.connect(5, "b", as("red/b")) // the figures are those of all spaces
	tenant.subscribe("$SYS/#", 0)
	tenant.quiet()
}

// [MQTT-4.8.2-1] [MQTT-4.8.2-3] [MQTT-4.8.2-4]
func TestSharedSubscriptionsShare(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		a, b, alone := n.connect(5, "a"), n.connect(4, "b"), n.connect(5, "alone")
		a.subscribe("$share/g/x/+", 1)
		b.subscribe("$share/g/x/+", 0)
		alone.subscribe("$share/h/x/+", 2)
		from := n.connect(5, "from")
		for i := range 10 {
			m := text("x/y", fmt.Sprint(i))
			m.QoS = 1
			from.publish(m)
			alone.take(fmt.Sprint(i))
		}
		for range 5 {
			a.acknowledge(a.receive())
			if m := b.receive(); m.QoS != 0 {
				t.Errorf("QoS %d", m.QoS)
			}
		}
		a.quiet()
		b.quiet()
	})
}

// [MQTT-4.8.2-5] [MQTT-4.8.2-6]: what a member that is gone left behind goes to others.
func TestSharedMessagesOutliveTheirMember(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		a := n.connect(5, "a", property(packet.ReceiveMaximum, 1))
		a.subscribe("$share/g/x", 2)
		from := n.connect(5, "from")
		for i := range 3 {
			m := text("x", fmt.Sprint(i))
			m.QoS = 1
			from.publish(m)
		}
		a.receive()
		b := n.connect(5, "b")
		b.subscribe("$share/g/x", 2)
		n.cut(a, "a")
		for i := range 3 {
			b.take(fmt.Sprint(i))
		}
		b.quiet()
	})
}
