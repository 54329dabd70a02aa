package broker

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
)

// offline leaves a retained Will on a topic.
func offline(topic string) func(*packet.Connect) {
	return func(c *packet.Connect) {
		c.HasWill, c.Will.Topic, c.Will.Payload, c.Will.QoS, c.Will.Retain = true, []byte(topic), []byte("offline"), 1, true
	}
}

// comeBack connects anew and says that it is back, in one write.
func (n *node) comeBack(version byte, id, topic string, change ...func(*packet.Connect)) *peer {
	n.t.Helper()
	p := n.dial(version)
	c := packet.Connect{Version: version, CleanStart: true, ClientID: []byte(id)}
	for _, f := range change {
		f(&c)
	}
	online := text(topic, "online")
	online.QoS, online.PacketID, online.Retain = 1, 1, true
	p.send(online.Append(c.Append(nil), version))
	if err := p.connack.Decode(version, p.expect(packet.CONNACK)); err != nil || p.connack.Reason != packet.Success {
		n.t.Fatalf("CONNACK %+v: %v", p.connack, err)
	}
	if r := p.ack(packet.PUBACK, 1); r.Failed() {
		n.t.Fatalf("PUBACK %v", r)
	}
	return p
}

// What a client says on a new connection is newer than the Will of its old one,
// whichever reader is quicker: also when the old one has just been closed.
func TestAWillIsOlderThanTheNextConnection(t *testing.T) {
	const rounds = 100
	for _, readers := range []int{1, 2, 4, -1} {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d readers, closed first %v", readers, closes), func(t *testing.T) {
				t.Parallel()
				n := newNode(t, readers, func(o *Options) { o.Journal = new(MemoryJournal) })
				listener := n.connect(5, "listener")
				listener.subscribe("status/#", 1)
				for round := range rounds {
					version, keep := byte(4+round%2), func(*packet.Connect) {}
					if round/2%2 == 1 {
						keep = kept
					}
					id := fmt.Sprint("device-", round)
					topic := "status/" + id
					old := n.connect(version, id, offline(topic), keep)
					if closes {
						_ = old.nc.Close()
					}
					back := n.comeBack(version, id, topic, keep)
					listener.take("offline")
					listener.take("online")
					late := n.connect(5, "late")
					late.subscribe(topic, 0)
					late.take("online")
					_ = late.nc.Close()
					n.leave(back, id)
				}
				listener.quiet()
			})
		}
	}
}

// A connection to the same session cancels what a Will's delay put off; a clean
// start ends the session, and the Will goes before what comes by the new one.
func TestAWillThatWaitsGoesBeforeACleanStartOrNotAtAll(t *testing.T) {
	for _, readers := range []int{1, 2, 4, -1} {
		t.Run(fmt.Sprintf("%d readers", readers), func(t *testing.T) {
			t.Parallel()
			n := newNode(t, readers)
			listener := n.connect(5, "listener")
			listener.subscribe("status/#", 1)
			for round := range 50 {
				id := fmt.Sprint("device-", round)
				topic := "status/" + id
				delayed := func(c *packet.Connect) {
					offline(topic)(c)
					c.Will.Properties.SetNumber(packet.WillDelay, 600)
				}
				old := n.connect(5, id, kept, delayed)
				if round%3 == 1 {
					_ = old.nc.Close()
				}
				if round%3 == 2 {
					n.cut(old, id)
				}
				if round%2 == 0 {
					n.leave(n.comeBack(5, id, topic, kept), id)
				} else {
					n.leave(n.comeBack(5, id, topic), id)
					listener.take("offline")
				}
				listener.take("online")
			}
			listener.quiet()
		})
	}
}
