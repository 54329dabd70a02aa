package broker

import (
	"fmt"
	"testing"
)

// What a client was sent and has not acknowledged is sent again by the next
// process under the same identifier, marked as a duplicate; what it was never
// sent is not. [MQTT-4.4.0-1] [MQTT-3.3.1-1]
func TestARestartedBrokerRepeatsWhatWasSent(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		durable := func(o *Options) { o.Journal = journal }
		n := startNode(t, readers, durable)
		from, p := n.connect(5, "from"), n.connect(5, "a", kept)
		say := func(payload string) {
			m := text("x", payload)
			m.QoS = 1
			from.publish(m)
		}
		p.subscribe("x", 1)
		for i := range 3 {
			say(fmt.Sprint(i))
		}
		p.take("0")
		sent := []publish{p.receive(), p.receive()}
		n.leave(p, "a")
		say("3") // waits, is sent to the next connection
		p = n.connect(5, "a", kept)
		for range 2 {
			p.receive()
		}
		sent = append(sent, p.receive())
		p.acknowledge(sent[0])
		n.leave(p, "a")
		say("4") // waits, is sent to none
		n.stop()

		n = startNode(t, readers, durable)
		defer n.stop()
		p = n.connect(5, "a", kept)
		for _, m := range sent[1:] {
			if again := p.receive(); string(again.Payload) != string(m.Payload) || again.PacketID != m.PacketID || !again.Dup {
				t.Errorf("sent %+v, again %+v", m, again)
			}
		}
		if last := p.take("4"); last.Dup {
			t.Error("DUP on a first delivery")
		}
		p.quiet()
	})
}
