package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// [MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT-3.1.2-6] [MQTT-3.1.2-23] [MQTT-3.2.2-4] [MQTT-3.2.2-5]
// [MQTT-3.1.4-4] [MQTT-3.2.2-1] [MQTT-3.2.2-3]
func TestSessionsAreKeptAsAsked(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		for _, version := range []byte{4, 5} {
			for _, c := range []struct {
				name          string
				first, second func(*packet.Connect)
				want          bool
			}{
				{"kept", kept, kept, true},
				{"clean start", kept, func(*packet.Connect) {}, false},
				{"not kept", func(*packet.Connect) {}, kept, false},
			} {
				p := n.connect(version, "a", c.first)
				if p.connack.SessionPresent {
					t.Errorf("%d %s: session present at first", version, c.name)
				}
				p.subscribe("x", 1)
				n.leave(p, "a")
				p = n.connect(version, "a", c.second)
				if p.connack.SessionPresent != c.want {
					t.Errorf("%d %s: session present %v", version, c.name, !c.want)
				}
				p.publish(text("x", "1"))
				if c.want {
					p.take("1")
				}
				p.quiet()
				n.leave(p, "a")
				n.leave(n.connect(version, "a"), "a")
				eventually.Holds(t, fmt.Sprintf("%d %s: no session is left", version, c.name), func() bool { return n.counters().sessions == 0 })
			}
		}
	})
}

// [MQTT-4.4.0-1] [MQTT-4.6.0-1] [MQTT-3.3.1-1] [MQTT-3.3.1-3] [MQTT-4.1.0-1] [MQTT-4.5.0-1]
// [MQTT-4.3.3-5] [MQTT-4.3.3-6]
func TestUnacknowledgedMessagesAreSentAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		from := n.connect(5, "from")
		for _, version := range []byte{4, 5} {
			p := n.connect(version, "a", kept)
			p.subscribe("x", 2)
			var first []publish
			for i := range 4 {
				m := text("x", fmt.Sprint(i))
				m.QoS = byte(1 + i%2)
				from.publish(m)
				first = append(first, p.receive())
			}
			p.acknowledge(first[0])
			p.send(packet.AppendAck(nil, version, packet.PUBREC, first[3].PacketID, 0))
			if _, _, ok := p.next(patience); !ok {
				t.Fatal("no PUBREL")
			}
			n.cut(p, "a")
			m := text("x", "4")
			m.QoS = 1
			from.publish(m)
			from.publish(text("x", "QoS 0 is not kept"))
			from.quiet()

			p = n.connect(version, "a", kept)
			for i := 1; i <= 2; i++ {
				got := p.take(fmt.Sprint(i))
				if !got.Dup || got.PacketID != first[i].PacketID || got.QoS != first[i].QoS {
					t.Errorf("again: %+v, first %+v", got, first[i])
				}
			}
			h, body, _ := p.next(patience)
			for h.Type() == packet.PUBREL && uint16(body[0])<<8|uint16(body[1]) != first[3].PacketID {
				p.send(packet.AppendAck(nil, version, packet.PUBCOMP, uint16(body[0])<<8|uint16(body[1]), 0))
				h, body, _ = p.next(patience)
			}
			if h.Type() != packet.PUBREL {
				t.Errorf("%v instead of PUBREL", h.Type())
			}
			p.send(packet.AppendAck(nil, version, packet.PUBCOMP, first[3].PacketID, 0))
			if got := p.take("4"); got.Dup {
				t.Error("DUP on a first delivery")
			}
			p.quiet()
			n.leave(p, "a")
			n.leave(n.connect(version, "a"), "a")
		}
	})
}

// [MQTT-3.1.4-3] [MQTT-3.14.2]
func TestTakeover(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		first := n.connect(5, "a", as("ann"), kept)
		first.subscribe("x", 1)
		if p := n.tryConnect(5, "a", as("bob"), kept); p.connack.Reason != packet.NotAuthorized {
			t.Errorf("bob: %v", p.connack.Reason)
		}
		if p := n.tryConnect(4, "a", as("bob"), kept); p.connack.Reason != 5 {
			t.Errorf("bob with 3.1.1: %v", p.connack.Reason)
		}
		first.quiet()
		second := n.connect(5, "a", as("ann"), kept)
		if !second.connack.SessionPresent {
			t.Error("session is gone")
		}
		if r := first.ended(); r != packet.SessionTakenOver {
			t.Errorf("first was told %v", r)
		}
		m := text("x", "1")
		m.QoS = 0
		second.publish(m)
		second.take("1")
		want := []string{"a connected", "a subscribed x", "a disconnected: session takeover", "a connected", "a subscribed x"}
		if got := n.seen.all(); !slices.Equal(got, want) {
			t.Errorf("presence was told %q", got)
		}
	})
}

// A client that reads nothing costs its publishers nothing, and its id can be
// had at once.
func TestStalledClient(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.QueueMessages = 100 })
		stalled := n.connect(5, "stalled", kept)
		stalled.subscribe("x", 1)
		other := n.connect(5, "other")
		other.subscribe("x", 0)
		from := n.connect(5, "from")
		for i := range 500 {
			from.publish(publish{Topic: []byte("x"), Payload: make([]byte, 50_000)})
			other.receive()
			_ = i
		}
		if n.stats.dropped.Load() == 0 {
			t.Error("nothing was dropped")
		}
		n.connect(5, "stalled", kept).quiet() // and not only when writing has timed out
	})
}

func TestFullQueueDisconnectsAndKeepsTheSession(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.QueueMessages = 10 })
		slow := n.connect(5, "slow", kept, property(packet.ReceiveMaximum, 5))
		slow.subscribe("x", 1)
		from := n.connect(5, "from")
		for i := range 20 {
			m := text("x", fmt.Sprint(i))
			m.QoS = 1
			from.publish(m)
		}
		n.gone("slow")
		if r := slow.ended(); r != packet.QuotaExceeded {
			t.Errorf("reason %v", r)
		}
		slow = n.connect(5, "slow", kept)
		for i := range 15 {
			slow.take(fmt.Sprint(i))
		}
		slow.quiet()
	})
}

// [MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT-3.14.4-3] [MQTT-3.1.2-14] [MQTT-3.1.2-15] [MQTT-3.1.2-17]
// [MQTT-3.1.3-10]
func TestWillsFire(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		listener := n.connect(5, "listener")
		listener.subscribe("will/#", 2)
		will := func(c *packet.Connect) {
			c.HasWill, c.Will.Topic, c.Will.Payload, c.Will.QoS, c.Will.Retain = true, []byte("will/a"), []byte("gone"), 1, true
			if c.Version == 5 {
				c.Will.Properties.AddUser([]byte("k"), []byte("v"))
				c.Will.Properties.SetNumber(packet.MessageExpiry, 50)
			}
		}
		for name, c := range map[string]struct {
			version byte
			end     func(p *peer)
			fires   bool
		}{
			"lost connection":         {5, func(p *peer) { _ = p.nc.Close() }, true},
			"lost connection 3.1.1":   {4, func(p *peer) { _ = p.nc.Close() }, true},
			"disconnect":              {5, func(p *peer) { p.hex("e000") }, false},
			"disconnect 3.1.1":        {4, func(p *peer) { p.hex("e000") }, false},
			"disconnect with will":    {5, func(p *peer) { p.hex("e00104") }, true},
			"protocol error":          {5, func(p *peer) { p.hex("0000") }, true},
			"kicked":                  {5, func(*peer) { n.Disconnect(home("a"), 0x98, "") }, true},
			"taken over, clean start": {5, func(*peer) { n.connect(5, "a") }, true},
		} {
			p := n.connect(c.version, "a", will)
			c.end(p)
			if c.fires {
				m := listener.take("gone")
				if m.QoS != 1 || m.Retain || c.version == 5 && (len(m.Properties.User) != 1 || m.Properties.Number(packet.MessageExpiry, 0) != 50) {
					t.Errorf("%s: %+v", name, m)
				}
			} else {
				n.gone("a")
				listener.quiet()
			}
			n.Disconnect(home("a"), 0, "")
			n.gone("a")
		}
		late := n.connect(5, "late")
		late.subscribe("will/a", 0)
		if m := late.take("gone"); !m.Retain {
			t.Error("will was not retained")
		}
	})
}

// [MQTT-3.1.3-9] and the delay's end with the session
func TestWillDelay(t *testing.T) {
	n := newNode(t, 1)
	listener := n.connect(5, "listener")
	listener.subscribe("will", 0)
	will := func(delay uint32) func(*packet.Connect) {
		return func(c *packet.Connect) {
			c.HasWill, c.Will.Topic, c.Will.Payload = true, []byte("will"), fmt.Append(nil, delay)
			c.Will.Properties.SetNumber(packet.WillDelay, delay)
		}
	}
	for delay := uint32(1); ; delay *= 2 { // back in time: no will
		start := time.Now()
		n.cut(n.connect(5, "a", kept, will(delay)), "a")
		n.connect(5, "a", kept)
		if time.Since(start) < time.Duration(delay)*time.Second {
			break
		}
		listener.send([]byte{0xC0, 0}) // it may have been too late
		for h, _ := listener.packet(); h.Type() != packet.PINGRESP; {
			h, _ = listener.packet()
		}
	}
	listener.quiet()
	start := time.Now()
	n.cut(n.connect(5, "b", kept, will(1)), "b")
	listener.take("1")
	if d := time.Since(start); d < 900*time.Millisecond {
		t.Errorf("fired after %v", d)
	}
	n.cut(n.connect(5, "c", will(100)), "c") // the session ends with the connection
	listener.take("100")
	n.cut(n.connect(5, "d", kept, will(200)), "d")
	n.connect(5, "d") // clean start ends the session
	listener.take("200")
	listener.quiet()
}

// [MQTT-4.1.0-2]
func TestSessionsExpire(t *testing.T) {
	n := newNode(t, 1)
	n.cut(n.connect(5, "a", property(packet.SessionExpiry, 1)), "a")
	b := n.connect(5, "b", kept)
	b.hex("e0 07 00 05 1100000000") // gives it up after all
	c := n.connect(5, "c", kept)
	c.hex("e0 07 00 05 1100000001")
	eventually.Holds(t, "sessions are gone", func() bool { return n.counters().sessions == 0 })
}

// A client may come and go a thousand times before its session expires.
func TestSessionsAreLookedAtOnceHoweverOftenTheyWereLeft(t *testing.T) {
	n := newNode(t, 1)
	dates := func() int {
		s := n.session(home("b")) // which may be on its way out still
		s.mu.Lock()
		defer s.mu.Unlock()
		n.timers.mu.Lock()
		defer n.timers.mu.Unlock()
		return len(n.timers.dates)
	}
	will := func(delay uint32) func(*packet.Connect) {
		return func(c *packet.Connect) {
			c.HasWill, c.Will.Topic = true, []byte("will")
			c.Will.Properties.SetNumber(packet.WillDelay, delay)
		}
	}
	for i := range 5 {
		n.leave(n.connect(5, "a", kept), "a")
		n.cut(n.connect(5, "a", kept, will(uint32(600-i))), "a")
		n.leave(n.connect(5, "b", property(packet.SessionExpiry, 3600)), "b") // ends the one before
	}
	if got := dates(); got != 2 {
		t.Errorf("%d dates of 2 sessions", got)
	}
	n.connect(5, "a")
	n.connect(5, "b")
	if got := dates(); got != 0 {
		t.Errorf("%d dates of sessions that ended", got)
	}
}

// The will is due before the session, and the session is looked at again.
func TestSessionsExpireAfterTheirWills(t *testing.T) {
	n := newNode(t, 1)
	listener := n.connect(5, "listener")
	listener.subscribe("will", 0)
	n.cut(n.connect(5, "a", property(packet.SessionExpiry, 2), func(c *packet.Connect) {
		c.HasWill, c.Will.Topic, c.Will.Payload = true, []byte("will"), []byte("gone")
		c.Will.Properties.SetNumber(packet.WillDelay, 1)
	}), "a")
	listener.take("gone")
	eventually.Holds(t, "the session is gone", func() bool { return n.session(home("a")) == nil })
}

// [MQTT-1.5.4-3] a byte order mark is part of the string
func TestByteOrderMarkIsKept(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "a")
	p.subscribe("\ufeffx", 0)
	p.publish(text("x", "other"))
	p.publish(text("\ufeffx", "this"))
	p.take("this")
}
