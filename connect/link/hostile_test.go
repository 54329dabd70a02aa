package link

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// hostile is a remote broker that accepts everybody; says then has the connection.
func hostile(t *testing.T, says func(conn net.Conn)) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() {
				if _, err := conn.Read(make([]byte, 4096)); err == nil {
					_, _ = conn.Write((&packet.Connack{SessionPresent: true}).Append(nil, packet.V5))
					says(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "mqtt://" + l.Addr().String()
}

// drain reads until the connection ends.
func drain(conn net.Conn) { _, _ = bufio.NewReader(conn).WriteTo(discard{}) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func publication(topic string, change ...func(*packet.Publish)) []byte {
	p := packet.Publish{Topic: []byte(topic), Payload: []byte("evil")}
	for _, f := range change {
		f(&p)
	}
	return p.Append(nil, packet.V5)
}

// A breach of the protocol ends the connection, and is told.
func TestABrokenRemoteBrokerIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says    []byte
		problem string
	}{
		"garbage":              {[]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, "breaks the protocol"},
		"a huge packet":        {[]byte{0x30, 0xFF, 0xFF, 0xFF, 0x7F}, "packet too large"},
		"a topic alias":        {publication("", func(p *packet.Publish) { p.Properties.SetNumber(packet.TopicAlias, 1) }), "topic alias"},
		"a wildcard in a name": {publication("in/#"), "name of a topic"},
		"no name":              {publication(""), "name of a topic"},
		"QoS 3":                {[]byte{0x36, 0x02, 0, 0}, "QoS 3"},
		"CONNECT":              {[]byte{0x10, 0x00}, "to a client"},
		"identifier 0":         {[]byte{0x40, 0x02, 0, 0}, "packet identifier 0"},
		"a wrong SUBACK":       {(&packet.Suback{PacketID: 1, Reasons: []packet.Reason{0, 0, 0}}).Append(nil, packet.V5, packet.SUBACK), "another number of filters"},
		"a farewell":           {[]byte{0xE0, 0x01, 0x8E}, "same client id"},
		"a second CONNACK":     {(&packet.Connack{}).Append(nil, packet.V5), "to a client"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near := newSite(t, "near")
			near.link(Config{Name: "evil", URL: hostile(t, func(conn net.Conn) {
				_, _ = conn.Write(c.says)
				drain(conn)
			}), In: []Rule{{Topic: "in/#", QoS: 1}}})
			var problem string
			eventually.Holds(t, c.problem, func() bool {
				v, _ := near.links.links[0].look()
				problem = v.Problem
				return strings.Contains(problem, c.problem)
			}, &problem)
		})
	}
}

// A remote broker sends topics without a subscription.
func TestTopicsThatNobodyAskedForGoNowhere(t *testing.T) {
	t.Parallel()
	topics := []string{"other", "in", "aibridge/bridge/request", "$SYS/x", "in2/x", "pre", "pre/../aibridge/bridge/request", "in/" + strings.Repeat("x", 65530)}
	near := newSite(t, "near")
	near.link(Config{Name: "evil", URL: hostile(t, func(conn net.Conn) {
		for _, topic := range topics {
			_, _ = conn.Write(publication(topic))
		}
		_, _ = conn.Write(publication("in/last"))
		drain(conn)
	}), In: []Rule{{Topic: "+", Remote: "in/", Local: "local/", QoS: 1}, {Topic: "#", Remote: "pre/", QoS: 1}}})
	everything := newClient(near, "everything", "#")
	near.connected()
	eventually.Holds(t, "the last one is counted", func() bool {
		return near.counted(false, outcomeCarried)+near.counted(false, outcomeUnmapped)+near.counted(false, outcomeTooLarge) >= uint64(len(topics))+1
	})
	everything.publish("end", "end", 1)
	everything.takes("end")
	for i := range everything.got {
		switch topic := string(everything.got[i].Topic); {
		case topic == "local/last", topic == "end", topic == "../aibridge/bridge/request":
		default:
			t.Errorf("arrived: %.80s", topic)
		}
	}
}

// A remote broker never acknowledges: no more than the window is under way, further
// messages wait within their bounds, and other clients do not notice.
func TestARemoteBrokerThatNeverAcknowledges(t *testing.T) {
	t.Parallel()
	near := newSite(t, "near")
	near.link(Config{Name: "evil", Inflight: 3, URL: hostile(t, drain), Out: []Rule{{Topic: "x", QoS: 1}}})
	near.connected()
	heard(t, near, "x")
	publisher := newClient(near, "publisher", "x")
	for i := range 10 {
		publisher.publish("x", fmt.Sprint(i), 1)
	}
	publisher.takes("9")
	if s, _ := near.links.Broker.Session("default", "link-evil"); s.Inflight != 3 || s.Queued != 7 {
		t.Errorf("%d are under way, %d wait", s.Inflight, s.Queued)
	}
}

// A remote broker floods the bridge while it acknowledges nothing and reads
// nothing: others are served.
func TestARemoteBrokerThatFloods(t *testing.T) {
	t.Parallel()
	near := newSite(t, "near")
	flood := bytes.Repeat(publication("in/x"), 1000)
	near.link(Config{Name: "evil", URL: hostile(t, func(conn net.Conn) {
		for {
			if _, err := conn.Write(flood); err != nil {
				return
			}
		}
	}), In: []Rule{{Topic: "in/#", QoS: 1}}, Out: []Rule{{Topic: "x", QoS: 1}}})
	near.connected()
	other := newClient(near, "other", "x")
	for i := range 10 {
		other.publish("x", fmt.Sprint(i), 1)
		other.takes(fmt.Sprint(i))
	}
	eventually.Holds(t, "it is flooded", func() bool { return near.counted(false, outcomeCarried) > 10_000 })
}

// FuzzRemote has a remote broker say anything.
func FuzzRemote(f *testing.F) {
	f.Add(publication("in/x", func(p *packet.Publish) { p.QoS, p.PacketID = 2, 1 }))
	f.Add([]byte{0x40, 0x02, 0, 1, 0x50, 0x02, 0, 1, 0x70, 0x02, 0, 1, 0x62, 0x02, 0, 1, 0xD0, 0})
	f.Add((&packet.Suback{PacketID: 1, Reasons: []packet.Reason{0x87}}).Append(nil, packet.V5, packet.SUBACK))
	f.Add([]byte{0xE0, 0x02, 0x8E, 0x00})
	f.Fuzz(func(t *testing.T, said []byte) {
		s := New(Options{Links: []Config{{Name: "evil"}}, Mark: "here"})
		for _, version := range []byte{packet.V311, packet.V5} {
			r := &relay{
				link: s.links[0], mark: "here", qos: 2, in: way{rules: []Rule{{Topic: "#", Remote: "in/", Local: "local/", QoS: 2}}, reserved: "aibridge"},
				local: newSide("the bridge", sink{}, packet.V5, 1<<20), there: newSide("the remote broker", sink{bytes.NewReader(said)}, version, 1<<20),
			}
			_ = pass(r.there, r.local, r.fromThere)
		}
	})
}

// A sink takes all that is written, and reads from a script.
type sink struct{ says *bytes.Reader }

func (s sink) Read(p []byte) (int, error)     { return s.says.Read(p) }
func (sink) Write(p []byte) (int, error)      { return len(p), nil }
func (sink) Close() error                     { return nil }
func (sink) LocalAddr() net.Addr              { return nil }
func (sink) RemoteAddr() net.Addr             { return nil }
func (sink) SetDeadline(time.Time) error      { return nil }
func (sink) SetReadDeadline(time.Time) error  { return nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }
