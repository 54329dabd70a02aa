package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
)

// [MQTT-3.3.1-5] [MQTT-4.3.1-1] [MQTT-4.3.2-3] [MQTT-4.3.3-8] [MQTT-3.8.4-8]
// [MQTT-2.2.1-2] [MQTT-2.2.1-4] [MQTT-2.2.1-5] [MQTT-3.3.4-1] [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.2-4] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.3.3-3] [MQTT-4.3.3-4] [MQTT-3.6.2-1] [MQTT-3.7.2-1]
func TestDeliveryAtEveryQoS(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		for _, versions := range [][2]byte{{4, 4}, {5, 5}, {4, 5}, {5, 4}} {
			from := n.connect(versions[0], "from")
			to := n.connect(versions[1], "to")
			for published := range byte(3) {
				for granted := range byte(3) {
					to.subscribe("a/b", granted)
					payload := fmt.Sprint(versions, published, granted)
					m := text("a/b", payload)
					m.QoS = published
					if r := from.publish(m); r != packet.Success {
						t.Errorf("%s: %v", payload, r)
					}
					if got := to.take(payload); got.QoS != min(published, granted) || got.Dup || got.Retain {
						t.Errorf("%s: %+v", payload, got)
					}
				}
			}
			n.leave(from, "from")
			n.leave(to, "to")
		}
	})
}

// [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20] [MQTT-3.3.2-4]
// [MQTT-3.3.2-13] [MQTT-3.3.2-19]
func TestPropertiesArriveUnaltered(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p, old := n.connect(5, "a"), n.connect(4, "old")
		p.subscribe("x", 1)
		old.subscribe("x", 0)
		for qos := range byte(2) {
			m := text("x", "payload")
			m.QoS = qos
			m.PacketID = uint16(qos)
			m.Properties.SetNumber(packet.PayloadFormat, 1)
			m.Properties.SetNumber(packet.MessageExpiry, 100)
			m.Properties.SetBytes(packet.ContentType, []byte("text/plain"))
			m.Properties.SetBytes(packet.ResponseTopic, []byte("re"))
			m.Properties.SetBytes(packet.CorrelationData, []byte{0, 1})
			m.Properties.AddUser([]byte("k"), []byte("1"))
			m.Properties.AddUser([]byte("k"), []byte("2"))
			m.Properties.AddUser([]byte("a"), []byte(""))
			p.send(m.Append(nil, 5))
			if qos == 1 {
				var got publish
				for range 2 { // PUBACK and PUBLISH in any order
					h, body := p.packet()
					if h.Type() == packet.PUBLISH {
						if err := got.Decode(5, h, body); err != nil {
							t.Fatal(err)
						}
					}
				}
				m.PacketID = got.PacketID
				if !bytes.Equal(got.Append(nil, 5), m.Append(nil, 5)) {
					t.Errorf("%+v", got)
				}
				p.acknowledge(got)
			} else if got := p.receive(); !bytes.Equal(got.Append(nil, 5), m.Append(nil, 5)) {
				t.Errorf("%+v, want %+v", got, m)
			}
			if got := old.receive(); string(got.Payload) != "payload" {
				t.Errorf("old got %+v", got)
			}
		}
	})
}

// [MQTT-3.3.2-12] and the aliases of §3.3.2.3.4, in both directions
// [MQTT-3.3.2-7]
func TestTopicAliases(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		from := n.connect(5, "from")
		to := n.connect(5, "to", property(packet.TopicAliasMaximum, 1))
		to.subscribe("long/#", 1)
		send := func(topic, payload string, alias uint32) {
			m := text(topic, payload)
			m.Properties.SetNumber(packet.TopicAlias, alias)
			from.send(m.Append(nil, 5))
		}
		send("long/one", "1", 1)
		send("", "2", 1)
		send("long/two", "3", 1) // [MQTT-3.3.2-10] a new mapping
		send("", "4", 1)
		for i, want := range []struct {
			topic string
			alias uint32
		}{{"long/one", 1}, {"", 1}, {"long/two", 0}, {"long/two", 0}} {
			m := to.take(fmt.Sprint(i + 1))
			if string(m.Topic) != want.topic || m.Properties.Number(packet.TopicAlias, 0) != want.alias {
				t.Errorf("message %d: topic %q alias %d", i+1, m.Topic, m.Properties.Number(packet.TopicAlias, 0))
			}
		}
	})
}

// [MQTT-3.3.4-8] [MQTT-3.2.2-12]
func TestOurReceiveMaximumIsEnforced(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.ReceiveMaximum = 2 })
		p := n.connect(5, "a")
		for id := range uint16(3) {
			m := text("x", "")
			m.QoS, m.PacketID = 2, id+1
			p.send(m.Append(nil, 5))
		}
		if r := p.ended(); r != packet.ReceiveMaximumExceeded {
			t.Errorf("reason %v", r)
		}
	})
}

// [MQTT-4.3.3-10] [MQTT-4.3.3-11] [MQTT-4.3.3-12]
func TestQoS2IsRoutedOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		to := n.connect(5, "to")
		to.subscribe("x", 0)
		p := n.connect(5, "a", kept)
		m := text("x", "once")
		m.QoS, m.PacketID = 2, 5
		p.send(m.Append(nil, 5))
		p.ack(packet.PUBREC, 5)
		n.cut(p, "a")
		p = n.connect(5, "a", kept)
		m.Dup = true
		p.send(m.Append(nil, 5))
		if r := p.ack(packet.PUBREC, 5); r.Failed() {
			t.Error(r)
		}
		for _, want := range []packet.Reason{packet.Success, packet.PacketIdentifierNotFound} {
			p.send(packet.AppendAck(nil, 5, packet.PUBREL, 5, 0))
			if r := p.ack(packet.PUBCOMP, 5); r != want {
				t.Errorf("%v, want %v", r, want)
			}
		}
		to.take("once")
		to.quiet()
		m.Dup, m.Payload = false, []byte("next")
		p.publish(m)
		to.take("next")
	})
}

// [MQTT-3.3.4-7] [MQTT-3.3.4-9] [MQTT-3.1.2-25]: the client's limits.
func TestClientsLimitsAreKept(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		from := n.connect(5, "from")
		to := n.connect(5, "to", property(packet.ReceiveMaximum, 2), property(packet.MaximumPacketSize, 100))
		to.subscribe("x", 2)
		to.subscribe("0", 0)
		for i := range 5 {
			m := text("x", fmt.Sprint(i))
			m.QoS = byte(1 + i%2)
			from.publish(m)
		}
		for _, topic := range []string{"x", "0"} { // [MQTT-3.1.2-24] too large
			big := text(topic, string(make([]byte, 200)))
			big.QoS = 1
			from.publish(big)
		}
		from.publish(text("0", "zero"))
		a, b, zero := to.receive(), to.receive(), to.receive()
		if string(a.Payload)+string(b.Payload)+string(zero.Payload) != "01zero" {
			t.Fatalf("got %s %s %s", a.Payload, b.Payload, zero.Payload)
		}
		to.quiet()
		to.acknowledge(b) // out of order
		c := to.receive()
		if string(c.Payload) != "2" || c.PacketID == a.PacketID {
			t.Fatalf("got %s", c.Payload)
		}
		to.acknowledge(a)
		d := to.receive()
		to.quiet()
		to.acknowledge(c)
		e := to.receive()
		to.acknowledge(d)
		to.acknowledge(e)
		if string(d.Payload)+string(e.Payload) != "34" {
			t.Errorf("got %s %s", d.Payload, e.Payload)
		}
		to.quiet()
	})
}

// [MQTT-3.3.5-2] [MQTT-3.4.2-1] [MQTT-3.4.2-2]
// [MQTT-3.5.2-1]
func TestRefusalsAreTold(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		for _, wanted := range []uint32{0, 1} {
			p := n.connect(5, "a", property(packet.RequestProblemInfo, wanted)) // [MQTT-3.1.2-29]
			m := text("forbidden/x", "")
			m.QoS, m.PacketID = 1, 3
			p.send(m.Append(nil, 5))
			var a packet.Ack
			if err := a.Decode(5, packet.PUBACK, p.expect(packet.PUBACK)); err != nil || a.Reason != packet.NotAuthorized ||
				a.Properties.Has(packet.ReasonString) != (wanted == 1) {
				t.Errorf("%+v %v", a, err)
			}
			m.QoS = 2
			if r := p.publish(m); r != packet.NotAuthorized {
				t.Error(r)
			}
			n.leave(p, "a")
		}
		old := n.connect(4, "old")
		for qos := range byte(3) {
			m := text("forbidden/x", "")
			m.QoS = qos
			old.publish(m)
		}
		old.quiet()
	})
}

func TestNobodySubscribedIsSaid(t *testing.T) {
	n := newNode(t, 1)
	m := text("x", "")
	m.QoS = 1
	if r := n.connect(5, "a").publish(m); r != packet.NoMatchingSubscribers {
		t.Error(r)
	}
}

// [MQTT-3.3.2-5] [MQTT-3.3.2-6]
func TestMessagesExpireWhileTheyWait(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		to := n.connect(5, "to", kept)
		to.subscribe("x", 1)
		n.cut(to, "to")
		from := n.connect(5, "from")
		for payload, expiry := range map[string]uint32{"short": 1, "long": 100} {
			m := text("x", payload)
			m.QoS = 1
			m.Properties.SetNumber(packet.MessageExpiry, expiry)
			from.publish(m)
		}
		s := n.session(home("to"))
		s.mu.Lock()
		for i := range s.queue.items {
			s.queue.items[i].msg.expires -= 5e9 // five seconds pass
		}
		s.mu.Unlock()
		to = n.connect(5, "to", kept)
		m := to.take("long")
		if left := m.Properties.Number(packet.MessageExpiry, 0); left < 94 || left > 95 {
			t.Errorf("%d seconds left", left)
		}
		to.quiet()
	})
}

func TestLargeMessagesPass(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.connect(5, "a")
		p.subscribe("x", 1)
		for _, size := range []int{0, 1, 100, 4000, 70_000, 500_000, 1 << 20} {
			m := publish{Topic: []byte("x"), Payload: bytes.Repeat([]byte{byte(size)}, size)}
			p.send(m.Append(nil, 5))
			if got := p.receive(); !bytes.Equal(got.Payload, m.Payload) {
				t.Fatalf("%d bytes became %d", size, len(got.Payload))
			}
		}
	})
}

// [MQTT-4.6.0-6] [MQTT-4.6.0-5]
func TestOrderIsKept(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		for qos := range byte(3) {
			to := n.connect(5, "to")
			to.subscribe("x/+", qos)
			from := n.connect(5, "from")
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range 300 {
					m := text("x/y", fmt.Sprint(i))
					m.QoS = qos
					from.publish(m)
				}
			}()
			for i := range 300 {
				to.take(fmt.Sprint(i))
			}
			<-done
			n.leave(to, "to")
			n.leave(from, "from")
		}
	})
}

func TestPublishReachesHandlersAndCountsReceivers(t *testing.T) {
	n := newNode(t, 1)
	var seen recorder
	n.Handle("h/+", func(p *Publication) {
		seen.add("%s %s %s", p.Client.ID, p.Topic, p.Payload)
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "re", Payload: p.Payload, QoS: 1}); err != nil {
			t.Error(err)
		}
	})
	p := n.connect(5, "a")
	p.subscribe("re", 1)
	for i := range 3 {
		p.publish(text("h/x", fmt.Sprint(i)))
	}
	for i := range 3 {
		p.take(fmt.Sprint(i))
	}
	if want := []string{"a h/x 0", "a h/x 1", "a h/x 2"}; !slices.Equal(seen.all(), want) {
		t.Errorf("handlers saw %q", seen.all())
	}
}

func TestAMessageForAPartyIsNotForItsNamesakes(t *testing.T) {
	lamp := protocol.Party{Kind: protocol.KindAgent, Space: "home", ID: "lamp"}
	anna := protocol.Party{Kind: protocol.KindOperator, Space: "home", ID: "anna"}
	either := protocol.Either(anna, lamp)
	m := &message{to: audienceOf(&either)}
	for who, want := range map[protocol.Party]bool{
		lamp: true,
		anna: true,
		{Kind: protocol.KindOperator, Space: "home", ID: "lamp"}: false,
		{Kind: protocol.KindAgent, Space: "home", ID: "anna"}:    false,
		{Kind: protocol.KindAgent, Space: "lab", ID: "lamp"}:     false,
		{}: false,
	} {
		if got := (&session{owner: who}).hears(m); got != want {
			t.Errorf("%s hears it: %v", who, got)
		}
	}
}

func TestAMessageForOnePrincipalReachesOnlyItsClients(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		mine, other := n.connect(packet.V5, "mine", as("lamp")), n.connect(packet.V5, "other", as("spy"))
		for _, p := range []*peer{mine, other} {
			p.subscribe("agent/lamp/request", 1)
			p.subscribe("$share/g/agent/lamp/request", 0)
		}
		receivers, err := n.Publish(protocol.Only(protocol.Party{Space: protocol.DefaultSpace, ID: "user:lamp"}), protocol.Message{Topic: "agent/lamp/request", Payload: []byte("secret"), QoS: 1})
		if err != nil || receivers != 2 {
			t.Errorf("%d receivers, %v", receivers, err)
		}
		mine.take("secret")
		mine.take("secret")
		other.quiet()
	})
}

// Whoever is not told that its publish is refused leaves a trace in the log, but
// does not fill it.
func TestRefusalsThatNobodyIsToldAreLogged(t *testing.T) {
	var log logBuffer
	c := clock.New()
	n := newNode(t, 1, ticking(c), func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	said := func() int { return strings.Count(log.String(), "a publish is refused") }
	refused := func(p *peer, qos byte) {
		m := text("forbidden/x", "")
		m.QoS = qos
		p.publish(m)
		p.quiet()
	}
	old := n.connect(4, "old")
	for range 20 {
		refused(old, 1)
	}
	if got := log.String(); said() != 1 || !strings.Contains(got, "client=old") || !strings.Contains(got, "topic=forbidden/x") || !strings.Contains(got, `reason="not your topic"`) {
		t.Errorf("the log says %s", got)
	}
	c.Advance(2 * time.Minute)
	old = n.connect(4, "old") // or its keep alive is over
	refused(old, 0)
	if said() != 2 {
		t.Errorf("said %d times, want once more after a while", said())
	}
	told := n.connect(5, "told")
	refused(told, 1)
	if said() != 2 {
		t.Error("who is told leaves a trace, too")
	}
	refused(told, 0)
	if said() != 3 {
		t.Error("a client with MQTT 5 is told nothing at QoS 0")
	}
	for i := range 50 {
		refused(n.connect(4, fmt.Sprint("other-", i)), 0)
	}
	if got := said(); got > 40 {
		t.Errorf("said %d times", got)
	}
}

// A logBuffer is read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
