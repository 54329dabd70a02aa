package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// [MQTT-3.1.3-5] [MQTT-3.1.3-2]
func TestPlainClientIDsAreAllowed(t *testing.T) {
	n := newNode(t, 1)
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i := 0; i+23 <= len(letters); i += 13 {
		n.connect(5, letters[i:i+23])
		n.connect(4, letters[i:i+1])
	}
}

// [MQTT-3.1.4-2] [MQTT-3.1.4-6] [MQTT-3.2.2-6] [MQTT-3.2.2-7] [MQTT-3.2.2-8] [MQTT-4.12.0-4]
func TestNothingIsDoneForARefusedClient(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		listener := n.connect(5, "listener")
		listener.subscribe("#", 0)
		for _, version := range []byte{4, 5} {
			p := n.dial(version)
			c := packet.Connect{Version: version, CleanStart: true, ClientID: []byte("a"), HasUsername: true, Username: []byte("ann"), HasPassword: true, Password: []byte("wrong")}
			m := text("x", "not to be routed")
			p.send(m.Append(c.Append(nil), version))
			var a packet.Connack
			if err := a.Decode(version, p.expect(packet.CONNACK)); err != nil || a.SessionPresent {
				t.Errorf("CONNACK %+v: %v", a, err)
			}
			if want := map[byte]packet.Reason{4: 4, 5: packet.BadUserNameOrPassword}[version]; a.Reason != want {
				t.Errorf("version %d: %v", version, a.Reason)
			}
			p.ended()
		}
		listener.quiet()
	})
}

// [MQTT-3.2.2-19] [MQTT-3.9.2-1] [MQTT-3.4.2-2] [MQTT-3.5.2-2] [MQTT-3.14.2-3] [MQTT-3.1.2-24]:
// with a small Maximum Packet Size everything but what is needed is left out.
func TestAnswersFitTheClientsPackets(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		const most = 20
		p := n.connect(5, "a", property(packet.MaximumPacketSize, most))
		size := func(typ packet.Type) {
			t.Helper()
			if body := p.expect(typ); len(body)+2 > most {
				t.Errorf("%v of %d bytes", typ, len(body)+2)
			}
		}
		p.send((&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte("forbidden/x")}}}).Append(nil, 5))
		size(packet.SUBACK)
		for qos, typ := range map[byte]packet.Type{1: packet.PUBACK, 2: packet.PUBREC} {
			m := text("forbidden/x", "")
			m.QoS, m.PacketID = qos, 4
			p.send(m.Append(nil, 5))
			size(typ)
		}
		n.Disconnect(home("a"), 0x98, "a reason far too long for this client")
		size(packet.DISCONNECT)

		many := packet.Subscribe{PacketID: 1}
		few := packet.Unsubscribe{PacketID: 1}
		for range most {
			many.Filters = append(many.Filters, packet.Subscription{Filter: []byte("x")})
			few.Filters = append(few.Filters, []byte("x"))
		}
		for _, b := range [][]byte{many.Append(nil, 5), few.Append(nil, 5)} {
			p := n.connect(5, "a", property(packet.MaximumPacketSize, most))
			p.send(b)
			if r := p.ended(); r != packet.PacketTooLarge {
				t.Errorf("too many filters: %v", r)
			}
		}
	})
}

// [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT-3.14.2-1]
func TestNothingFollowsADisconnect(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.connect(5, "a")
		p.subscribe("x", 0)
		n.Disconnect(home("a"), 0x98, "")
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x"}); err != nil {
			t.Fatal(err)
		}
		p.expect(packet.DISCONNECT)
		if h, _, ok := p.next(patience); ok {
			t.Errorf("%v after DISCONNECT", h.Type())
		}
	})
}

// [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-11]
func TestNoAliasWithoutBeingAsked(t *testing.T) {
	n := newNode(t, 1)
	for _, most := range []uint32{0, 2} {
		p := n.connect(5, "a", property(packet.TopicAliasMaximum, most))
		p.subscribe("topic/#", 0)
		for i := range 8 {
			p.publish(text(fmt.Sprint("topic/", i%4), ""))
			m := p.receive()
			if got := m.Properties.Number(packet.TopicAlias, 0); got > most {
				t.Errorf("alias %d, maximum %d", got, most)
			}
		}
	}
}

// [MQTT-4.4.0-2] [MQTT-4.8.2-6]: a client's refusal ends a delivery like its consent.
func TestRefusedDeliveriesAreNotRepeated(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p, other := n.connect(5, "a", kept), n.connect(5, "other")
		p.subscribe("x", 2)
		p.subscribe("$share/g/y", 2)
		for _, topic := range []string{"x", "y"} {
			for qos := byte(1); qos <= 2; qos++ {
				m := text(topic, "")
				m.QoS = qos
				other.publish(m)
				got := p.receive()
				typ := packet.PUBACK
				if qos == 2 {
					typ = packet.PUBREC
				}
				p.send(packet.AppendAck(nil, 5, typ, got.PacketID, packet.QuotaExceeded))
				p.quiet() // no PUBREL either
			}
		}
		other.subscribe("$share/g/y", 2)
		n.cut(p, "a")
		n.connect(5, "a", kept).quiet()
		other.quiet()
	})
}

// [MQTT-4.3.2-5] [MQTT-4.3.3-9] [MQTT-4.3.3-12]: an identifier that was given
// back stands for a new message.
func TestIdentifiersAreUsedAgain(t *testing.T) {
	n := newNode(t, 1)
	to, p := n.connect(5, "to"), n.connect(5, "a")
	to.subscribe("x", 0)
	for qos := byte(1); qos <= 2; qos++ {
		for i := range 3 {
			m := text("x", fmt.Sprint(qos, i))
			m.QoS, m.PacketID, m.Dup = qos, 5, i == 2
			p.publish(m)
			to.take(string(m.Payload))
		}
	}
	bad, good := text("forbidden/x", ""), text("x", "good")
	bad.QoS, good.QoS = 2, 2
	p.publish(bad) // PUBREC refuses, the identifier is free
	p.publish(good)
	to.take("good")
}

// [MQTT-4.3.3-7] [MQTT-4.3.3-13]: expiry ends with the first sending.
func TestSentMessagesDoNotExpire(t *testing.T) {
	n := newNode(t, 1)
	p, from := n.connect(5, "a", kept), n.connect(5, "from")
	p.subscribe("x", 2)
	m := text("x", "here")
	m.QoS = 2
	m.Properties.SetNumber(packet.MessageExpiry, 1)
	from.publish(m)
	first := p.receive()
	n.cut(p, "a")
	s := n.session(home("a"))
	s.mu.Lock()
	s.window.slots[0].msg.expires -= int64(time.Hour)
	s.mu.Unlock()
	p = n.connect(5, "a", kept)
	if again := p.take("here"); again.PacketID != first.PacketID || !again.Dup {
		t.Errorf("%+v", again)
	}
	p.quiet()
}

// [MQTT-3.10.4-2] [MQTT-3.10.4-3]
func TestUnsubscribeStopsNewMessagesAndFinishesOldOnes(t *testing.T) {
	n := newNode(t, 1)
	p, from := n.connect(5, "a", kept, property(packet.ReceiveMaximum, 1)), n.connect(5, "from")
	p.subscribe("x", 2)
	for i := range 2 {
		m := text("x", fmt.Sprint(i))
		m.QoS = 2
		from.publish(m)
	}
	first := p.receive()
	p.send((&packet.Unsubscribe{PacketID: 1, Filters: [][]byte{[]byte("x")}}).Append(nil, 5))
	p.expect(packet.UNSUBACK)
	m := text("x", "late")
	m.QoS = 2
	from.publish(m)
	p.acknowledge(first)
	p.take("1")
	p.quiet()
}

// [MQTT-3.3.4-10] [MQTT-4.9.0-1] [MQTT-4.9.0-2] [MQTT-4.9.0-3]: a spent quota
// holds back QoS 1 and 2 only, and comes back with each acknowledgement, not
// beyond where it began.
func TestQuotaHoldsBackNothingElse(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p, from := n.connect(5, "a", kept, property(packet.ReceiveMaximum, 2)), n.connect(5, "from")
		p.subscribe("x", 2)
		p.subscribe("zero", 0)
		publish := func(payload string) {
			m := text("x", payload)
			m.QoS = 2
			from.publish(m)
		}
		for i := range 6 {
			publish(fmt.Sprint(i))
		}
		a, _ := p.receive(), p.receive()
		from.publish(text("zero", "now"))
		p.take("now")
		p.subscribe("other", 1)
		p.quiet()
		p.send(packet.AppendAck(nil, 5, packet.PUBREC, a.PacketID, 0)) // not yet
		if h, _, _ := p.next(patience); h.Type() != packet.PUBREL {
			t.Fatalf("%v", h.Type())
		}
		p.quiet()
		n.cut(p, "a")

		p = n.connect(5, "a", kept, property(packet.ReceiveMaximum, 2))
		if h, _, _ := p.next(patience); h.Type() != packet.PUBREL { // takes nothing from the new quota
			t.Fatalf("%v", h.Type())
		}
		for _, want := range []string{"1", "2"} {
			if m := p.receive(); string(m.Payload) != want {
				t.Fatalf("%s, want %s", m.Payload, want)
			}
		}
		p.quiet()
		p.send(packet.AppendAck(nil, 5, packet.PUBCOMP, a.PacketID, 0)) // gives nothing back
		p.quiet()
	})
}

// [MQTT-4.12.0-6] [MQTT-3.15.2-1]
func TestNoAuthForThoseWhoDidNotAsk(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Enhanced = map[string]Method{"secret": secret{2}} })
	p := n.connect(5, "a")
	if p.connack.Properties.Has(packet.AuthMethod) {
		t.Error("method in CONNACK")
	}
	p.quiet()
}

// The limits of one address and one client hold; see Limits.
func TestSubscriptionsAreLimited(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Limits.Subscriptions = 2 })
	p := n.connect(5, "a")
	p.subscribe("1", 0)
	p.subscribe("2", 0)
	if r := p.trySubscribe("3", 0); r[0] != packet.QuotaExceeded {
		t.Error(r)
	}
	p.subscribe("2", 1)
}

func TestRetainedBytesAreLimited(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Limits.RetainedBytes = 100 })
	p := n.connect(5, "a")
	for i, want := range []packet.Reason{packet.NoMatchingSubscribers, packet.QuotaExceeded} {
		m := publish{Topic: fmt.Append(nil, i), Payload: []byte(strings.Repeat("x", 60)), Retain: true, QoS: 1}
		if r := p.publish(m); r != want {
			t.Errorf("%d: %v", i, r)
		}
	}
}
