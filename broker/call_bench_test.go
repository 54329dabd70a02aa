package broker

import (
	"fmt"
	"net"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A sink is a transport that takes everything, and the identifiers of what is published.
type sink struct {
	ids []uint16
}

func (s *sink) write(segs []seg, off int) (n int, err error) {
	for _, g := range segs {
		b := g.b[off:]
		off = 0
		n += len(b)
		for len(b) > 0 {
			size := packetLen(b)
			if packet.Type(b[0]>>4) == packet.PUBLISH && b[0]>>1&3 == 1 {
				at := size - packetBody(b[:size])
				topic := int(b[at])<<8 | int(b[at+1])
				s.ids = append(s.ids, uint16(b[at+2+topic])<<8|uint16(b[at+3+topic]))
			}
			b = b[size:]
		}
	}
	return n, nil
}

// packetBody is the size of a packet without its header.
func packetBody(b []byte) int {
	h, _, err := packet.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	return h.Remaining
}

func (s *sink) held() int         { return 0 }
func (s *sink) passOn(*turn) bool { return false }
func (s *sink) await()            {}
func (s *sink) full() bool        { return true }
func (s *sink) shut()             {}
func (s *sink) close()            {}
func (s *sink) pause()            {}
func (s *sink) resume()           {}

// A member is a connected client without a socket.
type member struct {
	*conn
	sink sink
}

func (n *node) member(t *turn, id string, filter string) *member {
	m := &member{conn: n.newConn(n.stats.door("mqtt"), &net.TCPAddr{}, nil)}
	m.transport = &m.sink
	n.addConn(m.conn)
	in := (&packet.Connect{Version: packet.V5, ClientID: []byte(id), CleanStart: true}).Append(nil)
	subscribe := packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte(filter), QoS: 1}}}
	in = subscribe.Append(in, packet.V5)
	if rest := t.consume(m.conn, in); len(rest) > 0 {
		n.t.Fatalf("%d bytes left", len(rest))
	}
	t.end()
	return m
}

// acknowledgements are those of all that the client was sent since the last.
func (m *member) acknowledgements(dst []byte) []byte {
	for _, id := range m.sink.ids {
		dst = packet.AppendAck(dst, packet.V5, packet.PUBACK, id, packet.Success)
	}
	m.sink.ids = m.sink.ids[:0]
	return dst
}

// BenchmarkCall carries calls: a caller's publication that a handler answers by one to an
// agent, whose publication another handler answers by one to the caller, all of them
// acknowledged: what the broker does for a command, without sockets. Sixteen travel
// together.
func BenchmarkCall(b *testing.B) {
	const together, callers = 16, 50
	n := startNode(b, -1)
	defer n.stop()
	who := protocol.Only(protocol.Party{ID: "user:", Space: protocol.DefaultSpace})
	payload := make([]byte, 400)
	properties := []protocol.UserProperty{{Key: "version", Value: "1.0"}, {Key: "trace_id", Value: "0123456789abcdef0123456789abcdef"}}
	n.Handle("bridge/request", func(p *Publication) {
		p.HearsMore = true
		_, _ = n.Publish(who, protocol.Message{
			Topic: "agent/one/request", Payload: payload, QoS: 1, Expiry: 1e10, ContentType: "application/json",
			ResponseTopic: "agent/one/response", CorrelationData: p.CorrelationData, UserProperties: properties,
		})
	})
	answers := make([]string, callers)
	next := 0
	n.Handle("agent/one/response", func(p *Publication) {
		p.HearsMore = true
		_, _ = n.Publish(who, protocol.Message{
			Topic: answers[next/together%callers], Payload: payload, QoS: 1, ContentType: "application/json", CorrelationData: p.CorrelationData, UserProperties: properties,
		})
		next++
	})
	t := newTurn(n.Broker).begin()
	t.rides = true
	agent := n.member(t, "one", "agent/one/request")
	var members []*member
	for i := range callers {
		answers[i] = fmt.Sprintf("client/%d/response", i)
		members = append(members, n.member(t, fmt.Sprint("caller", i), answers[i]))
	}
	messages := func(topic, response string) (all []byte) {
		for i := range together {
			p := packet.Publish{QoS: 1, Topic: []byte(topic), PacketID: uint16(i + 1), Payload: payload}
			p.Properties.SetBytes(packet.CorrelationData, []byte("0123456789abcdef"))
			if response != "" {
				p.Properties.SetBytes(packet.ResponseTopic, []byte(response))
			}
			all = p.Append(all, packet.V5)
		}
		return all
	}
	var questions [][]byte
	for _, topic := range answers {
		questions = append(questions, messages("bridge/request", topic))
	}
	reply := messages("agent/one/response", "")
	in := make([]byte, 0, 64<<10)
	turn := func(m *member, all []byte) {
		n.flusher.enter(t.begin().now)
		in = append(m.acknowledgements(in[:0]), all...)
		if rest := t.consume(m.conn, in); len(rest) > 0 {
			b.Fatal("bytes left")
		}
		t.settle()
		n.flusher.help(t)
		t.dismount()
		t.end()
		n.flusher.leave()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += together {
		at := i / together % callers
		turn(members[at], questions[at])
		turn(agent, reply)
	}
	b.StopTimer()
}
