package app_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// TestAClientTakesItsSessionToAnotherBridge publishes while a client goes from
// bridge to bridge.
func TestAClientTakesItsSessionToAnotherBridge(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	speaker := n[2].Connect(t, "speaker")
	walker := n[0].Connect(t, "walker", kept)
	walker.Listen(t, "news/+")
	for round := range 6 {
		text := fmt.Sprint("round ", round)
		old := walker
		if round%2 == 0 {
			old.Drop()
		}
		if reason := publishes(t, speaker, &paho.Publish{Topic: "news/today", Payload: []byte(text), QoS: byte(1 + round%2)}); reason != 0 {
			t.Errorf("answered by %#x", reason)
		}
		if round%2 == 1 {
			isTold(t, walker, "news/today", text)
			walker.Send(t, "walked", "") // behind the acknowledgement of what it was told
		}
		walker = n[(round+1)%3].Connect(t, "walker", kept)
		if !walker.Connack.SessionPresent {
			t.Fatalf("round %d: the session is not there", round)
		}
		if round%2 == 0 {
			isTold(t, walker, "news/today", text)
			walker.Send(t, "walked", "")
		} else {
			isDismissed(t, old)
		}
	}
}

// isDismissed waits until a bridge has told a client that its session was taken over.
func isDismissed(t *testing.T, c *bridgetest.Raw) {
	t.Helper()
	eventually.Holds(t, "the old connection is told", func() bool {
		select {
		case d := <-c.Dismissed:
			if d.ReasonCode != 0x8E {
				t.Fatalf("dismissed with %#x", d.ReasonCode)
			}
			return true
		default:
			return false
		}
	})
}

// TestAClientThatWantsNoSessionEndsTheOneElsewhere connects with a clean start to
// another bridge than the one that has the client's session.
func TestAClientThatWantsNoSessionEndsTheOneElsewhere(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	watcher := n[2].Connect(t, "watcher")
	watcher.Listen(t, "wills/#")
	for round, keeps := range []func(*paho.Connect){kept, func(*paho.Connect) {}} {
		id := fmt.Sprint("walker-", round)
		old := n[0].Connect(t, id, keeps, leaves(&paho.WillMessage{Topic: "wills/" + id, Payload: []byte("gone"), QoS: 1}))
		old.Listen(t, "news/"+id)
		fresh := n[1].Connect(t, id)
		if fresh.Connack.SessionPresent {
			t.Error("the session is present")
		}
		isDismissed(t, old)
		isTold(t, watcher, "wills/"+id, "gone")
		if reason := publishes(t, watcher, &paho.Publish{Topic: "news/" + id, QoS: 1}); reason != 0x10 {
			t.Errorf("a message for the session that ended was answered by %#x", reason)
		}
		fresh.Drop()
		if back := n[0].Connect(t, id, kept); back.Connack.SessionPresent {
			t.Error("the session that ended is there again")
		}
	}
}

// TestAWillWithADelayIsForgottenElsewhere comes back to another bridge before the
// Will was due.
func TestAWillWithADelayIsForgottenElsewhere(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	watcher := n[2].Connect(t, "watcher")
	watcher.Listen(t, "wills/#")
	delayed := func(c *paho.Connect) {
		delay := uint32(60)
		c.WillMessage, c.WillProperties = &paho.WillMessage{Topic: "wills/walker", Payload: []byte("gone"), QoS: 1}, &paho.WillProperties{WillDelayInterval: &delay}
	}
	n[0].Connect(t, "walker", kept, delayed).Drop()
	back := n[1].Connect(t, "walker", kept, leaves(&paho.WillMessage{Topic: "wills/walker", Payload: []byte("gone again"), QoS: 1}))
	back.Drop()
	isTold(t, watcher, "wills/walker", "gone again")
}

// A wire is an MQTT 5 connection on which a test says when what is acknowledged.
type wire struct {
	t    *testing.T
	conn net.Conn
}

func dialWire(t *testing.T, n *bridgetest.Node, id string) (w *wire, present bool) {
	t.Helper()
	conn, err := net.Dial("tcp", n.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w = &wire{t, conn}
	hour := uint32(3600)
	w.send(&packets.Connect{ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: id, Properties: &packets.Properties{SessionExpiryInterval: &hour}})
	connack := w.next(packets.CONNACK).Content.(*packets.Connack)
	if connack.ReasonCode != 0 {
		t.Fatalf("CONNACK %#x", connack.ReasonCode)
	}
	return w, connack.SessionPresent
}

func (w *wire) send(p packets.Packet) {
	w.t.Helper()
	if _, err := p.WriteTo(w.conn); err != nil {
		w.t.Fatal(err)
	}
}

// next is the next packet, which must be of a type.
func (w *wire) next(kind byte) *packets.ControlPacket {
	w.t.Helper()
	p, err := packets.ReadPacket(w.conn)
	if err != nil {
		w.t.Fatal(err)
	}
	if p.Type != kind {
		w.t.Fatalf("%s came, not packet %d", p.PacketType(), kind)
	}
	return p
}

func (w *wire) publish(id uint16, topic, text string, again bool) {
	w.t.Helper()
	w.send(&packets.Publish{QoS: 2, PacketID: id, Topic: topic, Payload: []byte(text), Duplicate: again, Properties: &packets.Properties{}})
}

// TestWhatIsInFlightGoesAlong leaves QoS 2 in all of its states, in both directions,
// and goes on at another bridge.
func TestWhatIsInFlightGoesAlong(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	listener := n[2].Connect(t, "listener")
	listener.Listen(t, "said/#")
	w, _ := dialWire(t, n[0], "walker")
	w.send(&packets.Subscribe{PacketID: 1, Subscriptions: []packets.SubOptions{{Topic: "news", QoS: 2}}, Properties: &packets.Properties{}})
	w.next(packets.SUBACK)
	speaker := n[1].Connect(t, "speaker")
	for i := range 3 {
		publishes(t, speaker, &paho.Publish{Topic: "news", Payload: binary.AppendUvarint(nil, uint64(i)), QoS: 2})
	}
	var ids [3]uint16
	for i := range ids {
		ids[i] = w.next(packets.PUBLISH).Content.(*packets.Publish).PacketID
	}
	w.send(&packets.Pubrec{PacketID: ids[0], Properties: &packets.Properties{}})
	w.next(packets.PUBREL)
	w.publish(7, "said/one", "once", false)
	w.next(packets.PUBREC)

	for turn, at := range []*bridgetest.Node{n[1], n[2], n[0]} {
		var present bool
		if w, present = dialWire(t, at, "walker"); !present {
			t.Fatal("the session is not there")
		}
		if got := w.next(packets.PUBREL).Content.(*packets.Pubrel).PacketID; got != ids[0] {
			t.Errorf("turn %d: PUBREL is for %d, not %d", turn, got, ids[0])
		}
		for i := 1; i < 3; i++ {
			if p := w.next(packets.PUBLISH).Content.(*packets.Publish); p.PacketID != ids[i] || p.Payload[0] != byte(i) || !p.Duplicate {
				t.Errorf("turn %d: message %v came as %d, not as %d", turn, p.Payload, p.PacketID, ids[i])
			}
		}
		w.publish(7, "said/one", "once", true) // is known everywhere
		w.next(packets.PUBREC)
	}
	w.send(&packets.Pubcomp{PacketID: ids[0], Properties: &packets.Properties{}})
	w.send(&packets.Pubrel{PacketID: 7, Properties: &packets.Properties{}})
	w.next(packets.PUBCOMP)
	w.publish(7, "said/two", "then", false)
	w.next(packets.PUBREC)
	isTold(t, listener, "said/one", "once")
	isTold(t, listener, "said/two", "then")
}

// TestOperatorsSeeTheSessionsOfAllBridges asks one bridge for the sessions of
// others, and ends one there.
func TestOperatorsSeeTheSessionsOfAllBridges(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	for i := range 3 {
		c := n[i].Connect(t, fmt.Sprint("walker-", i), kept)
		c.Listen(t, "news")
	}
	onA := n[0].Caller(t, "caller")
	know(t, onA, 3)
	eventually.Holds(t, "all three are listed", func() bool {
		return field(t, must(t, onA, "session.list", `{"find":"walker"}`), "total") == "3"
	})
	shown := must(t, onA, "session.get", `{"client_id":"walker-2"}`)
	if got := field(t, shown, "bridge_id"); got != n[2].Config.ID {
		t.Errorf("it is at %q: %s", got, shown)
	}
	must(t, onA, "session.trace.start", `{"client_id":"walker-1"}`)
	must(t, onA, "session.trace.get", `{"client_id":"walker-1"}`)
	must(t, onA, "session.kick", `{"client_id":"walker-2","forget":true}`)
	answer := onA.Ask(t, bridgetest.Request(protocol.NewID(), "session.get", `{"client_id":"walker-2"}`))
	if answer.Err == nil || answer.Err.Code != protocol.NotFound {
		t.Errorf("a session that was ended: %v %s", answer.Err, answer.Result)
	}
}
