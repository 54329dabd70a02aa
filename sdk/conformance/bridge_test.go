package conformance

import (
	"io"
	"net"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// dial is a connection of a device through the proxy of a bridge, accepted.
func dial(t *testing.T, b *bridge) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", b.proxy.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	hello := packet.Connect{
		Version: packet.V311, CleanStart: true, ClientID: []byte(b.agent),
		HasUsername: true, Username: []byte("apikey"), HasPassword: true, Password: []byte(b.secret),
	}
	if _, err := conn.Write(hello.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len((&packet.Connack{}).Append(nil, packet.V311)))); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A device may have sent its registration before it learns that the connection was
// cut with its SUBSCRIBE. Neither is one that stands, and no request may be sent to
// that connection: it would be lost.
func TestWhatACutConnectionStillBringsCountsForNothing(t *testing.T) {
	t.Parallel()
	b, err := newBridge("device-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	before, after := true, false
	b.set(func(b *bridge) {
		b.onSubscribe = func() { // the broker cannot learn of the cut before this ends
			before = b.severed()
			b.proxy.cut()
			after = b.severed()
		}
	})
	register := request("agent.register", `{"agent_id":"device-1","type":"end_agent","skills":[]}`)
	subscribe := packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte(b.topics.AgentRequest(b.agent)), QoS: 1}}}
	publish := packet.Publish{QoS: 1, PacketID: 2, Topic: []byte(b.topics.BridgeRequest()), Payload: register.Append(nil)}
	if _, err := dial(t, b).Write(publish.Append(subscribe.Append(nil, packet.V311), packet.V311)); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the broker learns of the cut", func() bool { return b.record.count(0, isKind(cut)) == 1 })
	if before || !after || b.severed() {
		t.Errorf("the connection counts as cut: %v before the cut, %v after it, %v once it is gone", before, after, b.severed())
	}
	if n := b.record.count(0, isKind(listening)); n > 0 {
		t.Error("the device counts as listening")
	}
	if n := b.record.count(0, answeredCommand("agent.register")); n > 0 {
		t.Error("the device counts as registered")
	}
	if b.publish(protocol.Message{Topic: b.topics.AgentRequest(b.agent), QoS: 1}) {
		t.Error("a request was sent to nobody")
	}
}
