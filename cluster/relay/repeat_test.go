package relay

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
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
	return c.bareSession(to, id, false)
}

// bareSession connects a client with a session that is kept, and that it may begin.
func (c *cluster) bareSession(to, id string, begin bool) bare {
	c.t.Helper()
	nc, err := net.Dial("tcp", c.node(to).addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = nc.Close() })
	b, keep := bare{nc, c.t}, uint32(3600)
	b.write(&packets.Connect{
		ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: id, CleanStart: begin, UsernameFlag: true, Username: "home",
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

// A repeater is a client of a bridge that is killed before it knows that all
// receivers have its publications, and comes back to it.
type repeater struct {
	c       *cluster
	journal *broker.MemoryJournal
	bare
}

// newRepeater adds bridge a, with a journal and a publisher.
func newRepeater(c *cluster) *repeater {
	r := &repeater{c: c, journal: new(broker.MemoryJournal)}
	c.journal = r.journal
	c.add("a")
	c.agree()
	near := c.bareKept("a", "near")
	near.write(&packets.Subscribe{PacketID: 1, Subscriptions: []packets.SubOptions{{Topic: "mark", QoS: 1}}, Properties: &packets.Properties{}})
	near.read()
	r.bare = c.bareKept("a", "speaker")
	return r
}

// kill ends the bridge, once everything before is stored.
func (r *repeater) kill() {
	r.write(&packets.Publish{PacketID: 60_000, QoS: 1, Topic: "mark", Properties: &packets.Properties{}})
	r.c.connect("a", "other", "home").says("mark", "is stored behind what was before", 1)
	r.c.journal = r.journal.Copy()
	r.c.end(r.c.node("a"))
}

// restart starts the bridge again and repeats the publications to it.
func (r *repeater) restart(ids ...uint16) {
	r.c.t.Helper()
	r.c.add("a")
	r.c.agree()
	r.bare = r.c.bareKept("a", "speaker")
	for _, id := range ids {
		r.publish(id, fmt.Sprint(id), true)
		if answer, ok := r.read().(*packets.Pubrec); !ok || answer.ReasonCode != 0 {
			r.c.t.Fatalf("what was repeated was answered by %v", answer)
		}
	}
	r.c.connect("a", "last", "home").says("t", "end", 1)
}

// TestWhatIsRepeatedComesOnlyToThoseWhoLackIt kills a bridge when one of two others
// has a publication of QoS 2, and a session of its own.
func TestWhatIsRepeatedComesOnlyToThoseWhoLackIt(t *testing.T) {
	c := newCluster(t, "b", "c")
	r := newRepeater(c)
	has, lacks := c.connect("b", "has", "home"), c.connect("c", "lacks", "home")
	has.hears("t", 2)
	lacks.hears("t", 2)
	own := wandering{c, broker.SessionID{Space: "home", Client: "own"}}
	owner := own.connect("a", true)
	owner.hears("t", 2)
	c.deafen("c", true)
	r.publish(7, "7", false)
	has.expect("t=7@2")
	owner.expect("t=7@2")
	r.kill()
	c.deafen("c", false)
	r.restart(7)
	has.expect("t=end@1")
	lacks.expect("t=7@2", "t=end@1")
	own.connect("a", false).expect("t=end@1")
}

// TestAnIdentifierThatIsUsedAnewIsNoRepetition has a client use an identifier again
// after the publication that had it was received everywhere.
func TestAnIdentifierThatIsUsedAnewIsNoRepetition(t *testing.T) {
	c := newCluster(t, "b")
	r := newRepeater(c)
	far := c.connect("b", "far", "home")
	far.hears("t", 2)
	for _, text := range []string{"first", "second"} {
		r.publish(7, text, false)
		r.read()
		r.write(&packets.Pubrel{PacketID: 7, Properties: &packets.Properties{}})
		r.read()
	}
	r.kill()
	r.restart(7) // it was lost on its way when it was sent first
	far.expect("t=first@2", "t=second@2", "t=7@2", "t=end@1")
}

// TestAGroupGetsOnceWhatIsRepeated kills a bridge when members of a group at another
// one have some of its publications.
func TestAGroupGetsOnceWhatIsRepeated(t *testing.T) {
	c := newCluster(t, "b", "c")
	r := newRepeater(c)
	members := []*device{c.connect("b", "m1", "home"), c.connect("c", "m2", "home")}
	for _, m := range members {
		m.hears("$share/g/t", 2)
	}
	c.deafen("c", true)
	for id := uint16(7); id < 11; id++ {
		r.publish(id, fmt.Sprint(id), false)
	}
	first := []string{members[0].next(), members[0].next()} // of two it is the turn of c
	r.kill()
	c.deafen("c", false)
	r.restart(7, 8, 9, 10)
	for _, m := range members {
		m.hears("over", 1)
	}
	c.connect("a", "later", "home").says("over", "?", 1)
	got := make(map[string]int)
	for _, text := range first {
		got[text]++
	}
	for _, m := range members {
		for text := m.next(); text != "over=?@1"; text = m.next() {
			got[text]++
		}
	}
	for _, text := range []string{"t=7@2", "t=8@2", "t=9@2", "t=10@2", "t=end@1"} {
		if got[text] != 1 {
			t.Errorf("%s came to the group %d times: %v", text, got[text], got)
		}
	}
}

// TestASessionThatMovedGetsNothingAgain moves a session that has a publication of
// QoS 2 to a bridge that never had it, and repeats it.
func TestASessionThatMovedGetsNothingAgain(t *testing.T) {
	for _, filter := range []string{"t", "$share/g/t"} {
		c := newCluster(t, "b", "c")
		r := newRepeater(c)
		w := wander(c, filter)
		there := c.connect("b", "there", "home")
		there.hears("t", 2)
		c.deafen("a", true) // and it does not learn that b has it
		r.publish(7, "7", false)
		there.expect("t=7@2")
		r.kill()
		d := w.arrive(w.cut())
		c.deafen("a", false)
		r.restart(7)
		there.expect("t=end@1")
		d.expect("t=7@2", "t=end@1")
	}
}

// A turnstile lets everybody in, and counts.
type turnstile struct{ since atomic.Int64 }

func (d *turnstile) Enter(context.Context, broker.Entering) (broker.Admission, error) {
	return broker.Admission{Epoch: 1, Since: d.since.Add(1), Done: func() {}}, nil
}
func (d *turnstile) Left(broker.SessionID)    {}
func (d *turnstile) Settled(broker.SessionID) {}
func (d *turnstile) Restored(_ context.Context, held []broker.Held) ([]uint32, error) {
	return slices.Repeat([]uint32{1}, len(held)), nil
}

// TestAWillComesOnceThoughItIsPublishedAgain kills a bridge that has published a
// Will before it could store that it has.
func TestAWillComesOnceThoughItIsPublishedAgain(t *testing.T) {
	c := newCluster(t, "b")
	journal := new(broker.MemoryJournal)
	c.journal, c.entrance = journal, new(turnstile)
	c.add("a")
	c.agree()
	listener := c.connect("b", "listener", "home")
	listener.hears("t", 2)
	for _, text := range []string{"first", "second"} { // each of a client of the same id
		mourned := c.bareWith("a", "mourned", text, 0)
		before := journal.Copy()
		_ = mourned.Close()
		listener.expect("t=" + text + "@2")
		c.end(c.node("a"))
		c.journal = before
		c.add("a")
		c.agree()
		c.connect("a", "other", "home").says("t", "end", 1)
		listener.expect("t=end@1")
		journal = before
	}
}

// bareWith connects a client with a Will, whose session is kept for some seconds.
func (c *cluster) bareWith(to, id, text string, keep uint32) bare {
	c.t.Helper()
	nc, err := net.Dial("tcp", c.node(to).addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = nc.Close() })
	b := bare{nc, c.t}
	b.write(&packets.Connect{
		ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: id, CleanStart: true, UsernameFlag: true, Username: "home",
		WillFlag: true, WillQOS: 2, WillTopic: "t", WillMessage: []byte(text), Properties: &packets.Properties{SessionExpiryInterval: &keep},
	})
	if answer, ok := b.read().(*packets.Connack); !ok || answer.ReasonCode != 0 {
		c.t.Fatalf("CONNECT was answered by %v", answer)
	}
	return b
}

// TestANewSessionRepeatsNothing has a client begin a session at another bridge, which has
// numbered fewer publishes than the one before, and use the same identifiers.
func TestANewSessionRepeatsNothing(t *testing.T) {
	c := newCluster(t)
	c.entrance = new(turnstile)
	for _, name := range []string{"a", "b", "c"} {
		c.add(name)
	}
	c.agree()
	far, member := c.connect("b", "far", "home"), c.connect("b", "member", "home")
	far.hears("t", 2)
	member.hears("$share/g/t", 2)
	for _, at := range []string{"a", "a", "c"} {
		speaker := c.bareSession(at, "speaker", true)
		for id := uint16(1); id < 4; id++ {
			text := fmt.Sprint(at, id)
			speaker.publish(id, text, false)
			if answer, ok := speaker.read().(*packets.Pubrec); !ok || answer.ReasonCode != 0 {
				t.Fatalf("%s was answered by %v", text, answer)
			}
			far.expect("t=" + text + "@2")
			member.expect("t=" + text + "@2")
		}
		_ = speaker.Close()
	}
}

// TestARepetitionIsOfItsOwnSession kills the bridge at which a client has begun a session
// and published under an identifier that its earlier session had used elsewhere.
func TestARepetitionIsOfItsOwnSession(t *testing.T) {
	c := newCluster(t)
	c.entrance = new(turnstile)
	c.add("a")
	c.add("b")
	journal := new(broker.MemoryJournal)
	c.journal = journal
	c.add("c")
	c.agree()
	far := c.connect("b", "far", "home")
	far.hears("t", 2)
	speaker := c.bareSession("a", "speaker", true)
	speaker.publish(1, "earlier", false)
	speaker.read()
	far.expect("t=earlier@2")
	_ = speaker.Close()
	c.bareSession("c", "speaker", true) // and what it publishes there arrives nowhere
	c.journal = journal.Copy()
	c.end(c.node("c"))
	c.add("c")
	c.agree()
	speaker = c.bareKept("c", "speaker")
	speaker.publish(1, "later", true)
	if answer, ok := speaker.read().(*packets.Pubrec); !ok || answer.ReasonCode != 0 {
		t.Fatalf("it was answered by %v", answer)
	}
	far.expect("t=later@2")
}
