package broker

import (
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
)

// A client of MQTT 3.1.1 takes each acknowledgement for success. It gets none for a
// message that is not stored, and sends it again.
func TestAMessageThatIsNotStoredIsNotAcknowledgedOver311(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := startNode(t, readers, func(o *Options) { o.Journal = new(MemoryJournal) })
		defer n.stop()
		settling := make(chan func(Verdict), 1)
		n.Handle("held", func(p *Publication) { settling <- p.Hold() })
		n.Handle("taken", func(p *Publication) { settling <- p.Take() })
		unstored := Verdict{Reason: byte(packet.ImplementationSpecific), Unstored: true}
		for i, topic := range []string{"held", "taken"} {
			for qos := byte(1); qos <= 2; qos++ {
				m := text(topic, "x")
				m.QoS, m.PacketID = qos, uint16(1+i)
				ack := map[byte]packet.Type{1: packet.PUBACK, 2: packet.PUBREC}[qos]

				c := n.connect(4, "c", kept)
				c.send(m.Append(nil, c.version))
				(<-settling)(unstored)
				c.ended()
				c = n.connect(4, "c", kept)
				m.Dup = true
				c.send(m.Append(nil, c.version))
				(<-settling)(Verdict{})
				c.ack(ack, m.PacketID)
				n.leave(c, "c")

				c = n.connect(5, "five")
				c.send(m.Append(nil, c.version))
				(<-settling)(unstored)
				if r := c.ack(ack, m.PacketID); r != packet.ImplementationSpecific {
					t.Errorf("%s with QoS %d of MQTT 5 is acknowledged by %v", topic, qos, r)
				}
				n.leave(c, "five")
			}
		}
	})
}
