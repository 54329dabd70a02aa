package store

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

type anything struct{}

func (anything) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (anything) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }

func mqttServer(t testing.TB, j *Journal) (*broker.Broker, string) {
	t.Helper()
	b, err := broker.New(broker.Options{
		Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) {
			return &protocol.Principal{ID: "p"}, nil
		},
		Permissions: anything{},
		Journal:     j, SysInterval: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = b.Serve(context.Background(), "mqtt", l) }()
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b, l.Addr().String()
}

type mqttPeer struct {
	t   testing.TB
	nc  net.Conn
	buf []byte
}

func mqttConnect(t testing.TB, addr, id string) *mqttPeer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	p := &mqttPeer{t: t, nc: nc}
	c := packet.Connect{Version: packet.V5, ClientID: []byte(id)}
	c.Properties.SetNumber(packet.SessionExpiry, 3600)
	p.send(c.Append(nil))
	p.expect(packet.CONNACK)
	return p
}

func (p *mqttPeer) send(b []byte) {
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *mqttPeer) expect(want packet.Type) []byte {
	p.t.Helper()
	_ = p.nc.SetReadDeadline(time.Now().Add(eventually.Patience))
	for {
		h, n, err := packet.ParseHeader(p.buf)
		if err != nil {
			p.t.Fatal(err)
		}
		if n > 0 && len(p.buf) >= n+h.Remaining {
			body := p.buf[n : n+h.Remaining]
			p.buf = p.buf[n+h.Remaining:]
			if h.Type() != want {
				p.t.Fatalf("%v instead of %v", h.Type(), want)
			}
			return body
		}
		more := make([]byte, 4096)
		k, err := p.nc.Read(more)
		if err != nil {
			p.t.Fatal(err)
		}
		p.buf = append(p.buf[:len(p.buf):len(p.buf)], more[:k]...)
	}
}

// What the MQTT engine acknowledged is there for the next engine on the same
// journal, although the first was never closed.
func TestMQTTSessionsOutliveTheEngine(t *testing.T) {
	n := embedded(t, t.TempDir())
	j := journal(t, n)
	_, addr := mqttServer(t, j)
	p := mqttConnect(t, addr, "a")
	p.send((&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte("x/#"), QoS: 2}}}).Append(nil, 5))
	p.expect(packet.SUBACK)
	_ = p.nc.Close()
	from := mqttConnect(t, addr, "b")
	time.Sleep(20 * time.Millisecond) // whether a is gone by then does not matter
	for i := range 20 {
		m := packet.Publish{Topic: []byte("x/y"), QoS: byte(1 + i%2), PacketID: uint16(i + 1), Retain: i == 19, Payload: fmt.Append(nil, i)}
		from.send(m.Append(nil, 5))
		if m.QoS == 1 {
			from.expect(packet.PUBACK)
			continue
		}
		from.expect(packet.PUBREC)
		from.send(packet.AppendAck(nil, 5, packet.PUBREL, m.PacketID, 0))
		from.expect(packet.PUBCOMP)
	}

	_, addr = mqttServer(t, journal(t, n))
	p = mqttConnect(t, addr, "a")
	got := map[string]int{}
	for range 20 {
		h, body := packet.Header{First: byte(packet.PUBLISH)<<4 | 2}, p.expect(packet.PUBLISH)
		var m packet.Publish
		if err := m.Decode(5, h, body); err != nil {
			t.Fatal(err)
		}
		got[string(m.Payload)]++
	}
	if len(got) != 20 {
		t.Errorf("received %v", got)
	}
	late := mqttConnect(t, addr, "late")
	late.send((&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte("x/y")}}}).Append(nil, 5))
	late.expect(packet.SUBACK)
	late.expect(packet.PUBLISH)
}

// TestManySessionsAndRetainedMessagesAreLoaded starts a broker on thousands of
// both. BenchmarkMQTTRestart says how long a hundred thousand and more take.
func TestManySessionsAndRetainedMessagesAreLoaded(t *testing.T) {
	const many = 5_000
	n := embedded(t, t.TempDir())
	fillMQTT(t, n, many, many)
	_, addr := mqttServer(t, journal(t, n))
	p := mqttConnect(t, addr, "client-4777")
	p.send((&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte("agent/4777/card")}}}).Append(nil, 5))
	p.expect(packet.SUBACK)
	p.expect(packet.PUBLISH)
}

// BenchmarkMQTTRestart measures from the journal to a broker that serves, with
// 100 000 sessions and as many retained messages.
func BenchmarkMQTTRestart(b *testing.B) {
	for name, many := range map[string]struct{ sessions, retained int }{
		"sessions=100000":                 {100_000, 0},
		"retained=1000000":                {0, 1_000_000},
		"sessions=100000,retained=100000": {100_000, 100_000},
	} {
		b.Run(name, func(b *testing.B) {
			n := embedded(b, b.TempDir())
			fillMQTT(b, n, many.sessions, many.retained)
			before, after := heapInUse(), uint64(0)
			for b.Loop() {
				server, _ := mqttServer(b, journal(b, n))
				b.StopTimer()
				after = heapInUse()
				if err := server.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(after-before)/float64(many.sessions+many.retained), "heap-B/each")
		})
	}
}

// fillMQTT leaves sessions and retained messages, of 200 bytes, in the journal.
func fillMQTT(t testing.TB, n *natsd.Server, sessions, retained int) {
	t.Helper()
	j := journal(t, n)
	b, addr := mqttServer(t, j)
	for from := 0; from < sessions; from += 1000 {
		var values []KeyedValue
		for i := from; i < from+1000; i++ {
			values = append(values, KeyedValue{Key: fmt.Sprint("s/client-", i), Value: fmt.Appendf(nil,
				`{"serial":%d,"principal":{"ID":"p"},"version":5,"expiry":3600,"subs":[{"f":"agent/%d/request","q":1}]}`, i+10, i)})
		}
		if _, err := j.Write(t.Context(), values, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := mqttConnect(t, addr, "retainer")
	for i := range retained {
		m := packet.Publish{Topic: fmt.Appendf(nil, "agent/%d/card", i), Retain: true, Payload: make([]byte, 200)}
		p.send(m.Append(nil, 5))
	}
	p.send((&packet.Publish{Topic: []byte("last"), Retain: true, QoS: 1, PacketID: 1, Payload: []byte("x")}).Append(nil, 5))
	p.expect(packet.PUBACK)
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkMQTTRestartOwed measures from the journal to a broker that serves,
// with ten million messages owed to a hundred sessions that are away.
func BenchmarkMQTTRestartOwed(b *testing.B) {
	const sessions, messages = 100, 100_000
	dir := b.TempDir()
	n := embedded(b, dir)
	j := journal(b, n)
	values := make([]KeyedValue, sessions)
	for i := range values {
		values[i] = KeyedValue{Key: fmt.Sprint("s/client-", i), Value: fmt.Appendf(nil,
			`{"serial":%d,"principal":{"ID":"p"},"version":5,"expiry":3600,"subs":[{"f":"x/#","q":2}]}`, i+10)}
	}
	loaded(b, j)
	if _, err := j.Write(b.Context(), values, nil); err != nil {
		b.Fatal(err)
	}
	server, _ := mqttServer(b, j)
	for i := range messages {
		if _, err := server.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x/y", QoS: 2, Payload: fmt.Appendf(nil, "reading number %d", i)}); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	if err := server.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Logf("stopped in %v", time.Since(began))
	info, err := inspect(b.Context(), j.entries.nc, j.entries.stream)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("the log has %d messages with %d MiB", info.State.Messages, info.State.Bytes>>20)
	j.store.Close()
	n.Close()
	for b.Loop() {
		began := time.Now()
		n := embedded(b, dir)
		up := time.Since(began)
		server, _ := mqttServer(b, journal(b, n))
		b.StopTimer()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys>>20), "MiB-system")
		b.ReportMetric(up.Seconds(), "s-servers")
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc>>20), "MiB-heap")
		began = time.Now()
		if err := server.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.Logf("stopped in %v", time.Since(began))
		n.Close()
		b.StartTimer()
	}
}
