package broker

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// absent makes a session without a client that x/# waits for.
func (n *node) absent(id, filter string) {
	n.t.Helper()
	p := n.connect(packet.V5, id, kept)
	p.subscribe(filter, 2)
	n.leave(p, id)
}

// said publishes at QoS 1 or 2 and returns the whole first answer; QoS 2 is
// completed if the broker goes along.
func (p *peer) said(topic, payload string, qos byte) packet.Ack {
	p.t.Helper()
	m := text(topic, payload)
	m.QoS, m.PacketID = qos, 5
	p.send(m.Append(nil, p.version))
	typ := packet.PUBACK
	if qos == 2 {
		typ = packet.PUBREC
	}
	var a packet.Ack
	if err := a.Decode(p.version, typ, p.expect(typ)); err != nil || a.PacketID != 5 {
		p.t.Fatalf("%v %+v: %v", typ, a, err)
	}
	if qos == 2 && !a.Reason.Failed() {
		p.send(packet.AppendAck(nil, p.version, packet.PUBREL, 5, 0))
		p.ack(packet.PUBCOMP, 5)
	}
	return a
}

// Who publishes what nobody has room for is told so, as far as its version of
// MQTT goes; where anybody takes it, it is a success.
func TestPublishersLearnThatEveryQueueIsFull(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		for _, version := range []byte{packet.V311, packet.V5} {
			for _, qos := range []byte{1, 2} {
				for name, journal := range map[string]Journal{"in memory": nil, "stored": &MemoryJournal{}} {
					t.Run(fmt.Sprintf("version %d QoS %d %s", version, qos, name), func(t *testing.T) { overflow(t, readers, version, qos, journal) })
				}
			}
		}
	})
}

func overflow(t *testing.T, readers int, version, qos byte, journal Journal) {
	n := newNode(t, readers, func(o *Options) {
		o.Limits.QueueMessages, o.Limits.ReceiveMaximum, o.Journal = 3, 2, journal
	})
	n.absent("absent", "x/#")
	from := n.connect(version, "from")
	for i := range 3 {
		if a := from.said("x/y", fmt.Sprint(i), qos); a.Reason != packet.Success {
			t.Fatalf("message %d: %v", i, a.Reason)
		}
	}

	for range 3 { // a refusal takes nothing of our Receive Maximum
		a := from.said("x/y", "lost", qos)
		switch {
		case version == packet.V311 && a.Reason != packet.Success:
			t.Errorf("MQTT 3.1.1 is told %v", a.Reason)
		case version == packet.V5 && (a.Reason != packet.QuotaExceeded || len(a.Properties.Bytes(packet.ReasonString)) == 0):
			t.Errorf("told %v, %q", a.Reason, a.Properties.Bytes(packet.ReasonString))
		}
	}
	checkCounts(t, n, 3, 3)

	witness := n.connect(packet.V5, "witness")
	witness.subscribe("x/y", 0)
	if a := from.said("x/y", "seen", qos); a.Reason != packet.Success {
		t.Errorf("what somebody took is answered %v", a.Reason)
	}
	witness.take("seen")
	m := text("x/kept", "kept")
	m.QoS, m.Retain = qos, true
	if r := from.publish(m); r != packet.Success {
		t.Errorf("what is retained is answered %v", r)
	}
	checkCounts(t, n, 5, 3)

	back := n.connect(packet.V5, "absent", kept)
	for i := range 3 {
		back.take(fmt.Sprint(i))
	}
	n.leave(witness, "witness")
	if a := from.said("x/y", "after", qos); a.Reason != packet.Success {
		t.Errorf("there is room again, and yet: %v", a.Reason)
	}
	back.take("after")
	back.quiet()
}

func checkCounts(t *testing.T, n *node, dropped, overflowed uint64) {
	t.Helper()
	eventually.Holds(t, "the counts", func() bool {
		return n.stats.dropped.Load() == dropped && n.stats.overflowed.Load() == overflowed
	})
}

// [MQTT-4.8.2-4]
func TestAbsentMembersWithRoomTakeWhatOthersHaveNoRoomFor(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.QueueMessages = 2 })
		n.absent("a", "x/1")
		n.absent("a", "$share/g/x/2")
		n.absent("b", "$share/g/x/2")
		from := n.connect(packet.V5, "from")
		for range 2 {
			from.said("x/1", "fills a", 1)
		}
		for i := range 2 {
			if a := from.said("x/2", fmt.Sprint(i), 1); a.Reason != packet.Success {
				t.Errorf("%d: %v, though b has room", i, a.Reason)
			}
		}
		if a := from.said("x/2", "", 1); a.Reason != packet.QuotaExceeded {
			t.Errorf("both are full, and yet: %v", a.Reason)
		}
		b := n.connect(packet.V5, "b", kept)
		b.take("0")
		b.take("1")
		b.quiet()
	})
}

// A member that does not keep up is passed over while another has room, and
// is not disconnected for what is not for it.
func TestFullMembersAreSparedWhileOthersHaveRoom(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.QueueMessages = 2 })
		slow := n.connect(packet.V5, "slow", kept, property(packet.ReceiveMaximum, 1))
		slow.subscribe("$share/g/x", 1)
		from := n.connect(packet.V5, "from")
		for i := range 3 { // one is sent, two wait
			from.said("x", fmt.Sprint(i), 1)
		}
		n.absent("away", "$share/g/x")
		for i := range 2 {
			if a := from.said("x", fmt.Sprint("away ", i), 1); a.Reason != packet.Success {
				t.Errorf("%d: %v", i, a.Reason)
			}
		}
		for i := range 3 {
			slow.take(fmt.Sprint(i))
		}
		slow.quiet()
		away := n.connect(packet.V5, "away", kept)
		away.take("away 0")
		away.take("away 1")
	})
}

// MQTT 3.1.1 knows no Receive Maximum: a client may have as many messages
// unacknowledged as it has identifiers for.
func TestOldClientsMayHaveAnyNumberUnacknowledged(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		for _, qos := range []byte{1, 2} {
			n := newNode(t, readers, func(o *Options) { o.Limits.ReceiveMaximum = 10; o.Journal = &MemoryJournal{} })
			n.absent("absent", "x")
			from := n.connect(packet.V311, "from")
			const many = 3000
			var burst []byte
			for i := range many {
				m := text("x", "")
				m.QoS, m.PacketID = qos, uint16(i+1)
				burst = m.Append(burst, packet.V311)
			}
			from.send(burst)
			typ := packet.PUBACK
			if qos == 2 {
				typ = packet.PUBREC
			}
			for i := range many {
				from.ack(typ, uint16(i+1))
			}
			from.quiet()
		}
	})
}

// [MQTT-3.3.4-7] [MQTT-3.3.4-8]: what an earlier connection left open does not
// count.
func TestReceiveMaximumBeginsAnewWithEachConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.ReceiveMaximum = 2 })
		begin := func(p *peer, id uint16) {
			m := text("x", "")
			m.QoS, m.PacketID = 2, id
			p.send(m.Append(nil, packet.V5))
		}
		p := n.connect(packet.V5, "a", kept)
		for id := range uint16(2) {
			begin(p, id+1)
			p.ack(packet.PUBREC, id+1)
		}
		n.cut(p, "a")
		p = n.connect(packet.V5, "a", kept)
		for id := range uint16(2) {
			begin(p, id+11)
			p.ack(packet.PUBREC, id+11)
		}
		p.send(packet.AppendAck(nil, packet.V5, packet.PUBREL, 1, 0)) // of the first connection
		p.ack(packet.PUBCOMP, 1)
		p.send(packet.AppendAck(nil, packet.V5, packet.PUBREL, 11, 0))
		p.ack(packet.PUBCOMP, 11)
		begin(p, 21)
		p.ack(packet.PUBREC, 21)
		begin(p, 22)
		if r := p.ended(); r != packet.ReceiveMaximumExceeded {
			t.Errorf("ended with %v", r)
		}
	})
}

func TestRetainedMessagesThatWaitLeaveRoomForOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.QueueMessages = 10 })
		from := n.connect(packet.V5, "from")
		const many = 30
		for i := range many {
			from.publish(publish{Topic: fmt.Appendf(nil, "r/%d", i), Payload: []byte("r"), Retain: true, QoS: 1})
		}
		to := n.connect(packet.V5, "to", property(packet.ReceiveMaximum, 1))
		to.subscribe("#", 1)
		for i := range 10 {
			if a := from.said("live", fmt.Sprint(i), 1); a.Reason != packet.Success {
				t.Errorf("%d: %v", i, a.Reason)
			}
		}
		for range many {
			to.take("r")
		}
		for i := range 10 {
			to.take(fmt.Sprint(i))
		}
		to.quiet()
	})
}

func TestWhoSubscribesAgainAndAgainWithoutTakingIsDisconnected(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.QueueMessages = 10 })
		from := n.connect(packet.V5, "from")
		for i := range 10 {
			from.publish(publish{Topic: fmt.Appendf(nil, "r/%d", i), Payload: []byte("r"), Retain: true, QoS: 1})
		}
		to := n.connect(packet.V5, "to", property(packet.ReceiveMaximum, 1))
		again := packet.Subscribe{PacketID: 9, Filters: []packet.Subscription{{Filter: []byte("#"), QoS: 1}}}
		for range 8 {
			_, _ = to.nc.Write(again.Append(nil, packet.V5)) // the last ones may come too late
		}
		if r := to.ended(); r != packet.QuotaExceeded {
			t.Errorf("ended with %v", r)
		}
	})
}

// socketSide is the connection of a client, nil if it has none.
func socketSide(n *node, id string) *conn {
	s := n.session(home(id))
	if s == nil {
		return nil
	}
	return s.conn.Load()
}

func TestWhoDoesNotReadAnswersIsDisconnected(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.OutboxBytes = 64 << 10 })
		p := n.connect(packet.V311, "a")
		pings := bytes.Repeat([]byte{byte(packet.PINGREQ) << 4, 0}, 32<<10)
		for {
			if _, err := p.nc.Write(pings); err != nil {
				break
			}
			c := socketSide(n, "a")
			if c == nil {
				break
			}
			c.mu.Lock()
			waiting := c.out.size
			c.mu.Unlock()
			if waiting > 16<<20 {
				t.Fatalf("%d bytes wait for a client that reads nothing", waiting)
			}
		}
		n.gone("a")
	})
}
