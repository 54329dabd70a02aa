package relay

import (
	"net"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"github.com/aibridge/aibridge/broker"
)

// A bare client writes packets one by one.
type bare struct {
	net.Conn
	t *testing.T
}

func (b bare) write(p packets.Packet) {
	b.t.Helper()
	if _, err := p.WriteTo(b); err != nil {
		b.t.Fatal(err)
	}
}

func (b bare) read() packets.Packet {
	b.t.Helper()
	p, err := packets.ReadPacket(b)
	if err != nil {
		b.t.Fatal(err)
	}
	return p.Content
}

// bareKept connects a client with a session that is kept.
func (c *cluster) bareKept(to, id string) bare {
	c.t.Helper()
	nc, err := net.Dial("tcp", c.node(to).addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = nc.Close() })
	b, keep := bare{nc, c.t}, uint32(3600)
	b.write(&packets.Connect{
		ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: id, UsernameFlag: true, Username: "home",
		Properties: &packets.Properties{SessionExpiryInterval: &keep},
	})
	if answer, ok := b.read().(*packets.Connack); !ok || answer.ReasonCode != 0 {
		c.t.Fatalf("CONNECT was answered by %v", answer)
	}
	return b
}

func (b bare) publish(id uint16, text string, again bool) {
	b.write(&packets.Publish{PacketID: id, QoS: 2, Duplicate: again, Topic: "t", Payload: []byte(text), Properties: &packets.Properties{}})
}

// TestWhatABridgeHadNotHandedOnIsHandedOnWhenItIsRepeated ends a bridge that has
// stored a publication of QoS 2 for its own clients, and that others have not heard
// of.
func TestWhatABridgeHadNotHandedOnIsHandedOnWhenItIsRepeated(t *testing.T) {
	c := newCluster(t, "b")
	journal := new(broker.MemoryJournal)
	c.journal = journal
	c.add("a")
	c.agree()
	far := c.connect("b", "far", "home")
	far.hears("t", 2)
	near := c.bareKept("a", "near")
	near.write(&packets.Subscribe{PacketID: 1, Subscriptions: []packets.SubOptions{{Topic: "mark", QoS: 1}}, Properties: &packets.Properties{}})
	near.read()
	speaker := c.bareKept("a", "speaker")
	other := c.connect("a", "other", "home")
	c.deafen("b", true)
	speaker.publish(7, "once", false)
	speaker.write(&packets.Publish{PacketID: 8, QoS: 1, Topic: "mark", Properties: &packets.Properties{}})
	near.read() // so the one before is on its way
	other.says("mark", "is stored behind what was before", 1)
	c.journal = journal.Copy()
	c.end(c.node("a"))
	c.deafen("b", false)
	c.add("a")
	c.agree()
	speaker = c.bareKept("a", "speaker")
	speaker.publish(7, "once", true)
	if answer, ok := speaker.read().(*packets.Pubrec); !ok || answer.ReasonCode != 0 {
		t.Fatalf("it was answered by %v", answer)
	}
	c.connect("a", "last", "home").says("t", "end", 1)
	far.expect("t=once@2", "t=end@1")
}

// TestWhatAllBridgesHaveIsNotHandedOnAgain ends a bridge whose publisher has not
// heard that all have what it published.
func TestWhatAllBridgesHaveIsNotHandedOnAgain(t *testing.T) {
	c := newCluster(t, "b")
	journal := new(broker.MemoryJournal)
	c.journal = journal
	c.add("a")
	c.agree()
	far := c.connect("b", "far", "home")
	far.hears("t", 2)
	near := c.bareKept("a", "near")
	near.write(&packets.Subscribe{PacketID: 1, Subscriptions: []packets.SubOptions{{Topic: "mark", QoS: 1}}, Properties: &packets.Properties{}})
	near.read()
	speaker := c.bareKept("a", "speaker")
	speaker.publish(7, "once", false)
	speaker.read() // PUBREC, which is lost
	far.expect("t=once@2")
	c.connect("a", "other", "home").says("mark", "is stored behind what was before", 1)
	c.journal = journal.Copy()
	c.end(c.node("a"))
	c.add("a")
	c.agree()
	speaker = c.bareKept("a", "speaker")
	speaker.publish(7, "once", true)
	if answer, ok := speaker.read().(*packets.Pubrec); !ok || answer.ReasonCode != 0 {
		t.Fatalf("it was answered by %v", answer)
	}
	c.connect("a", "last", "home").says("t", "end", 1)
	far.expect("t=end@1")
}
