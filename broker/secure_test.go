package broker

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// over is a client that has a TLS connection over nc.
func (n *node) over(nc net.Conn, change ...func(*tls.Config)) (*peer, *tls.Conn) {
	n.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	for _, f := range change {
		f(config)
	}
	c := tls.Client(nc, config)
	if t, ok := n.t.(*testing.T); ok {
		t.Cleanup(func() { _ = nc.Close() })
	}
	return &peer{t: n.t, nc: c, version: packet.V5}, c
}

func (n *node) tcp() net.Conn {
	n.t.Helper()
	nc, err := net.Dial("tcp", n.addr)
	if err != nil {
		n.t.Fatalf("dial: %v", err)
	}
	return nc
}

func (p *peer) hello(id string) {
	p.t.Helper()
	c := packet.Connect{Version: p.version, CleanStart: true, ClientID: []byte(id)}
	p.send(c.Append(nil))
	p.expect(packet.CONNACK)
}

// A broken wire writes pieces of a few bytes and reads single ones.
type brokenWire struct {
	net.Conn
	piece int
	in    io.Reader
}

func (w brokenWire) Read(b []byte) (int, error) { return w.in.Read(b) }

func (w brokenWire) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = w.Conn.Write(b[n:min(len(b), n+w.piece)])
		n += k
	}
	return n, err
}

// TestRecordsComeInPieces: records that socket reads cut anywhere, of packets of any
// size, and packets that records cut anywhere.
func TestRecordsComeInPieces(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, piece := range []int{3, 1000, 1 << 20} {
			t.Run(fmt.Sprintf("%s in %d", tls.VersionName(version), piece), func(t *testing.T) {
				t.Parallel()
				n := newNode(t, overTLS+1)
				nc := n.tcp()
				p, _ := n.over(brokenWire{nc, piece, iotest.OneByteReader(nc)}, func(c *tls.Config) { c.MaxVersion = version })
				p.hello("a")
				p.subscribe("x", 1)
				sizes := []int{0, 1, 100, 1200, 16 << 10, 16<<10 + 1, 40 << 10, 150 << 10}
				if piece < 100 {
					sizes = sizes[:5]
				}
				var all []byte
				for i, size := range sizes {
					m := packet.Publish{QoS: 1, PacketID: uint16(i + 1), Topic: []byte("x"), Payload: bytes.Repeat([]byte{byte('a' + i)}, size)}
					all = m.Append(all, p.version)
				}
				go func() { // or both sides wait for the other to read
					for len(all) > 0 { // records that end within packets
						k := min(len(all), 5000)
						_, _ = p.nc.Write(all[:k])
						all = all[k:]
					}
				}()
				acknowledged := 0
				for i := 0; i < len(sizes) || acknowledged < len(sizes); {
					h, body := p.packet()
					if h.Type() == packet.PUBACK {
						acknowledged++
						continue
					}
					var m packet.Publish
					if err := m.Decode(p.version, h, body); err != nil {
						t.Fatal(err)
					}
					if want := bytes.Repeat([]byte{byte('a' + i)}, sizes[i]); !bytes.Equal(m.Payload, want) {
						t.Fatalf("message %d has %d bytes, not %d", i, len(m.Payload), sizes[i])
					}
					i++
				}
			})
		}
	}
}

// A corkedWire delays writes until somebody reads.
type corkedWire struct {
	net.Conn
	out []byte
}

func (w *corkedWire) Write(b []byte) (int, error) {
	w.out = append(w.out, b...)
	return len(b), nil
}

func (w *corkedWire) Read(b []byte) (int, error) {
	if len(w.out) > 0 {
		if _, err := w.Conn.Write(w.out); err != nil {
			return 0, err
		}
		w.out = nil
	}
	return w.Conn.Read(b)
}

// TestConnectComesWithTheHandshake: the TLS connection may have read more than its own
// when a reader takes over.
func TestConnectComesWithTheHandshake(t *testing.T) {
	t.Parallel()
	n := newNode(t, overTLS+1)
	p, _ := n.over(&corkedWire{Conn: n.tcp()})
	c := packet.Connect{Version: p.version, CleanStart: true, ClientID: []byte("a")}
	m := packet.Publish{QoS: 1, PacketID: 7, Topic: []byte("x")}
	p.send(m.Append(c.Append(nil), p.version))
	p.expect(packet.CONNACK)
	p.ack(packet.PUBACK, 7)
}

// TestSessionsOfTLSResume: the second handshake is short.
func TestSessionsOfTLSResume(t *testing.T) {
	t.Parallel()
	n := newNode(t, overTLS+1)
	cache := tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		p, c := n.over(n.tcp(), func(c *tls.Config) { c.ServerName, c.ClientSessionCache = "bridge", cache })
		p.hello("a")
		if got := c.ConnectionState().DidResume; got != (i == 1) {
			t.Errorf("connection %d resumed: %v", i, got)
		}
		n.leave(p, "a")
	}
}

// TestHowTLSEnds, however the client ends it.
func TestHowTLSEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *tls.Conn){
		"goodbye":    func(c *tls.Conn) { _ = c.CloseWrite() },
		"no goodbye": func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).CloseWrite() },
		"in a record": func(c *tls.Conn) {
			_, _ = c.NetConn().Write([]byte{23, 3, 3, 1, 0, 1, 2, 3})
			_ = c.NetConn().(*net.TCPConn).CloseWrite()
		},
		"a record nobody sealed":   func(c *tls.Conn) { _, _ = c.NetConn().Write(append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...)) },
		"not a record":             func(c *tls.Conn) { _, _ = c.NetConn().Write([]byte("GET / HTTP/1.1\r\n\r\n")) },
		"a packet and the goodbye": func(c *tls.Conn) { _, _ = c.Write([]byte{0xC0, 0}); _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, overTLS+1)
			p, c := n.over(n.tcp())
			p.hello("a")
			end(c)
			n.gone("a")
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, c.NetConn()); errors.Is(err, io.ErrNoProgress) || isTimeout(err) {
				t.Errorf("the connection goes on: %v", err)
			}
		})
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestTheBridgeSaysGoodbye: a client can tell the end from a cut.
func TestTheBridgeSaysGoodbye(t *testing.T) {
	t.Parallel()
	n := newNode(t, overTLS+1)
	p, c := n.over(n.tcp())
	p.hello("a")
	p.send([]byte{0xE0, 0})
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("it ends with %v", err)
	}
}

// TestSlowReadersOverTLS get everything in order although the socket takes little.
func TestSlowReadersOverTLS(t *testing.T) {
	t.Parallel()
	n := newNode(t, overTLS+1, func(o *Options) { o.Limits.OutboxBytes = 64 << 20 })
	p, _ := n.over(n.tcp())
	p.hello("a")
	p.subscribe("x", 0)
	const messages, size = 400, 40_000 // more than sockets take
	for i := range messages {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x", Payload: bytes.Repeat([]byte{byte(i)}, size)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range messages {
		h, body := p.packet()
		var m packet.Publish
		if err := m.Decode(p.version, h, body); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Payload, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("message %d is not as it was sent", i)
		}
	}
}

// TestAWireIsBounded: a client that makes TLS answer and does not read ends.
func TestAWireIsBounded(t *testing.T) {
	w := new(wire)
	for sent := 0; sent < 10*mostAnswer; sent += 1000 {
		if _, err := w.Write(make([]byte, 1000)); err != nil {
			if err != errGreedy {
				t.Errorf("%v", err)
			}
			return
		}
	}
	t.Error("it takes everything")
}
