package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// Acknowledgements in one write, usual ones and others, do what they would do alone: each
// makes room for one message within the Receive Maximum, in order.
func TestAcknowledgementsThatComeTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p, from := n.connect(packet.V5, "p", property(packet.ReceiveMaximum, 4)), n.connect(packet.V5, "from")
		p.subscribe("x", 1)
		for i := range 12 {
			from.publish(publish{Topic: []byte("x"), QoS: 1, Payload: fmt.Append(nil, i)})
		}
		var ids []uint16
		receive := func(first, last int) {
			t.Helper()
			for i := first; i <= last; i++ {
				m := p.receive()
				if string(m.Payload) != fmt.Sprint(i) {
					t.Fatalf("%s instead of %d", m.Payload, i)
				}
				ids = append(ids, m.PacketID)
			}
		}
		receive(0, 3)
		usual := func(id uint16) []byte { return packet.AppendAck(nil, packet.V5, packet.PUBACK, id, packet.Success) }
		together := append(usual(ids[0]), usual(4711)...) // nobody was sent that
		together = append(together, packet.AppendAck(nil, packet.V5, packet.PUBACK, ids[1], packet.UnspecifiedError)...)
		together = append(together, byte(packet.PUBACK)<<4, 3, byte(ids[2]>>8), byte(ids[2]), 0) // not the shortest form
		p.send(append(together, usual(ids[3])...))
		receive(4, 7)
		p.send(append(append(usual(ids[4]), usual(ids[5])...), byte(packet.PINGREQ)<<4, 0))
		receive(8, 9)
		p.expect(packet.PINGRESP)
		p.quiet()
		p.send(append(append(append(usual(ids[6]), usual(ids[7])...), usual(ids[8])...), usual(ids[9])...))
		receive(10, 11)
		p.quiet()
	})
}

// A violation behind usual acknowledgements ends the connection as it does alone.
func TestAWrongAcknowledgementAmongOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		for name, wrong := range map[string]func(id uint16) []byte{
			"identifier 0":           func(uint16) []byte { return []byte{byte(packet.PUBACK) << 4, 2, 0, 0} },
			"the answer to QoS 2":    func(id uint16) []byte { return packet.AppendAck(nil, packet.V5, packet.PUBCOMP, id, 0) },
			"flags that are no such": func(id uint16) []byte { return []byte{byte(packet.PUBACK)<<4 | 1, 2, byte(id >> 8), byte(id)} },
		} {
			n := newNode(t, readers)
			p, from := n.connect(packet.V5, "p"), n.connect(packet.V5, "from")
			p.subscribe("x", 1)
			from.publish(publish{Topic: []byte("x"), QoS: 1})
			from.publish(publish{Topic: []byte("x"), QoS: 1})
			one, two := p.receive(), p.receive()
			p.send(append(packet.AppendAck(nil, packet.V5, packet.PUBACK, one.PacketID, 0), wrong(two.PacketID)...))
			if reason := p.ended(); reason != packet.ProtocolError && reason != packet.MalformedPacket {
				t.Errorf("%s: %v", name, reason)
			}
		}
	})
}

// A trace has every acknowledgement, also of those that come together.
func TestATraceHasAcknowledgementsThatComeTogether(t *testing.T) {
	n := newNode(t, 1)
	p, from := n.connect(packet.V5, "p"), n.connect(packet.V5, "from")
	p.subscribe("x", 1)
	if found, room := n.StartTrace(home("p"), time.Now().Add(soon)); !found || !room {
		t.Fatal(found, room)
	}
	var acks []byte
	for range 3 {
		from.publish(publish{Topic: []byte("x"), QoS: 1})
		acks = packet.AppendAck(acks, packet.V5, packet.PUBACK, p.receive().PacketID, 0)
	}
	p.send(append(acks, byte(packet.PINGREQ)<<4, 0))
	p.expect(packet.PINGRESP)
	if got := strings.Count(strings.Join(told(t, n, "p"), "\n"), "in PUBACK"); got != 3 {
		t.Errorf("%d acknowledgements are noted", got)
	}
}
