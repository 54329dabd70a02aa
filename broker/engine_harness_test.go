package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// patience bounds every wait; nothing comes near it unless it fails.
const patience = eventually.Patience

// fails is the part that testing.T and rapid.T have in common.
type fails interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// A node is a broker that listens on loopback.
type node struct {
	*Broker
	t      fails
	addr   string
	secure bool // over TLS
	web    *http.Server
	seen   recorder
}

// overTLS and overWebSocket, added to a number of readers, have a node serve these, and
// inCrowd has the readers park again and again.
const (
	overTLS       = 1_000
	overWebSocket = 10_000
	inCrowd       = 100_000
)

// everywhere runs a test with the shared readers, also over TLS and WebSocket, and with
// a goroutine per connection.
func everywhere(t *testing.T, test func(t *testing.T, readers int)) {
	t.Helper()
	for name, readers := range map[string]int{"readers": 2, "goroutines": -1, "readers that park": inCrowd + 2, "readers over TLS": overTLS + 2, "readers over WebSocket": overWebSocket + 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, readers)
		})
	}
}

// comingAndGoing is a crowd of goroutines that is there for most waits of readers, and
// then away for some.
func comingAndGoing() func() int {
	var waits atomic.Int64
	return func() int {
		if waits.Add(1)/64%8 == 0 {
			return 0
		}
		return math.MaxInt
	}
}

func newNode(t *testing.T, readers int, change ...func(*Options)) *node {
	t.Helper()
	n := startNode(t, readers, change...)
	t.Cleanup(n.stop)
	return n
}

func startNode(t fails, readers int, change ...func(*Options)) *node {
	t.Helper()
	n := &node{t: t}
	var awaiting func() int
	if readers >= inCrowd-1 {
		readers -= inCrowd
		awaiting = comingAndGoing()
	}
	if readers >= overWebSocket-1 {
		readers -= overWebSocket
		n.web = &http.Server{}
	}
	if n.secure = readers >= overTLS-1; n.secure {
		readers -= overTLS
	}
	o := Options{
		Authenticate: authenticate, Recognise: recognise, Permissions: permissions{}, Presence: &n.seen,
		Readers:     readers,
		Awaiting:    awaiting,
		SysInterval: -1,
	}
	for _, f := range change {
		f(&o)
	}
	b, err := New(o)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	n.Broker = b
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	n.addr = l.Addr().String()
	go n.serve(l)
	return n
}

func (n *node) serve(l net.Listener) {
	config := &tls.Config{Certificates: ownCertificate()}
	switch {
	case n.web != nil:
		n.web.Handler = n.WebSocket("mqtt")
		if n.secure {
			l = tlsListener{l, config}
		}
		_ = n.web.Serve(l)
	case n.secure:
		_ = n.ServeTLS(context.Background(), "mqtt", l, config)
	default:
		_ = n.Serve(context.Background(), "mqtt", l)
	}
}

func (n *node) stop() {
	if n.web != nil {
		_ = n.web.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.t.Fatalf("close: %v", err)
	}
}

// ownCertificate is for clients that do not check it.
var ownCertificate = sync.OnceValue(func() []tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
})

// home is the session of a client of the default space.
func home(id string) SessionID { return SessionID{protocol.DefaultSpace, id} }

// authenticate: a user's name is the password.
func authenticate(_ context.Context, shown Credentials) (*protocol.Principal, error) {
	if shown.Username != "" && shown.Username != string(shown.Password) {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "no such key")
	}
	return &protocol.Principal{ID: "user:" + shown.Username, Space: protocol.DefaultSpace}, nil
}

// recognise lets in who shows nothing.
func recognise(shown Credentials) *protocol.Principal {
	if shown.Username != "" {
		return nil
	}
	return &protocol.Principal{ID: "user:", Space: protocol.DefaultSpace}
}

// permissions refuse forbidden/… to all.
type permissions struct{}

func (permissions) MayPublish(_ *Client, topic string, _ bool) Verdict {
	if strings.HasPrefix(topic, "forbidden/") {
		return NotAuthorized("not your topic")
	}
	return Verdict{}
}

func (permissions) MaySubscribe(_ *Client, filter string) Verdict {
	if strings.HasPrefix(filter, "forbidden/") {
		return NotAuthorized("not your filter")
	}
	return Verdict{}
}

// A recorder keeps what presence was told.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func (r *recorder) Connected(c *Client)                   { r.add("%s connected", c.ID) }
func (r *recorder) Disconnected(c *Client, reason string) { r.add("%s disconnected: %s", c.ID, reason) }
func (r *recorder) Subscribed(c *Client, f string)        { r.add("%s subscribed %s", c.ID, f) }
func (r *recorder) Unsubscribed(c *Client, f string)      { r.add("%s unsubscribed %s", c.ID, f) }

// A peer speaks packets.
type peer struct {
	t       fails
	nc      net.Conn
	version byte
	buf     []byte
	connack packet.Connack
}

func (n *node) dial(version byte) *peer {
	n.t.Helper()
	nc := n.dialUnder()
	if n.web != nil {
		nc = n.upgraded(nc)
	}
	if t, ok := n.t.(*testing.T); ok {
		t.Cleanup(func() { _ = nc.Close() })
	}
	return &peer{t: n.t, nc: nc, version: version}
}

// dialUnder opens a connection, over TLS if the node serves that.
func (n *node) dialUnder() net.Conn {
	n.t.Helper()
	nc, err := net.Dial("tcp", n.addr)
	if err != nil {
		n.t.Fatalf("dial: %v", err)
	}
	if n.secure {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	}
	return nc
}

// upgraded makes a connection a WebSocket.
func (n *node) upgraded(nc net.Conn) net.Conn {
	n.t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nc, nil }}
	ws, _, err := websocket.Dial(context.Background(), "ws://"+n.addr, &websocket.DialOptions{
		Subprotocols: []string{"mqtt"}, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		n.t.Fatalf("upgrade: %v", err)
	}
	ws.SetReadLimit(-1)
	return &hastyConn{websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nc}
}

// A hastyConn closes without waiting for the broker.
type hastyConn struct {
	net.Conn
	under net.Conn
}

func (c *hastyConn) Close() error { return c.under.Close() }

// connect connects with a clean start unless changed.
func (n *node) connect(version byte, id string, change ...func(*packet.Connect)) *peer {
	n.t.Helper()
	p := n.tryConnect(version, id, change...)
	if p.connack.Reason != packet.Success {
		n.t.Fatalf("%s is refused: %v", id, p.connack.Reason)
	}
	return p
}

func (n *node) tryConnect(version byte, id string, change ...func(*packet.Connect)) *peer {
	n.t.Helper()
	p := n.dial(version)
	c := packet.Connect{Version: version, CleanStart: true, ClientID: []byte(id)}
	for _, f := range change {
		f(&c)
	}
	p.send(c.Append(nil))
	h, body := p.packet()
	if h.Type() != packet.CONNACK {
		n.t.Fatalf("%v instead of CONNACK", h.Type())
	}
	if err := p.connack.Decode(version, body); err != nil {
		n.t.Fatalf("CONNACK %x: %v", body, err)
	}
	return p
}

// kept asks for a session that stays.
func kept(c *packet.Connect) {
	c.CleanStart = false
	if c.Version == packet.V5 {
		c.Properties.SetNumber(packet.SessionExpiry, 3600)
	}
}

func property(id packet.PropertyID, v uint32) func(*packet.Connect) {
	return func(c *packet.Connect) { c.Properties.SetNumber(id, v) }
}

func as(user string) func(*packet.Connect) {
	return func(c *packet.Connect) {
		c.HasUsername, c.Username, c.HasPassword, c.Password = true, []byte(user), true, []byte(user)
	}
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	_ = p.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

func (p *peer) hex(s string) {
	p.t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	p.send(b)
}

// next reads one packet; ok is false at the end of the connection.
func (p *peer) next(wait time.Duration) (h packet.Header, body []byte, ok bool) {
	_ = p.nc.SetReadDeadline(time.Now().Add(wait))
	for {
		h, n, err := packet.ParseHeader(p.buf)
		if err != nil {
			p.t.Fatalf("broker sent garbage %x: %v", p.buf, err)
		}
		if n > 0 && len(p.buf) >= n+h.Remaining {
			body = p.buf[n : n+h.Remaining]
			p.buf = p.buf[n+h.Remaining:]
			return h, body, true
		}
		more := make([]byte, 64<<10)
		k, err := p.nc.Read(more)
		if err != nil {
			return h, nil, false
		}
		p.buf = append(p.buf[:len(p.buf):len(p.buf)], more[:k]...)
	}
}

// packet reads one packet; it answers PUBREL itself.
func (p *peer) packet() (packet.Header, []byte) {
	p.t.Helper()
	for {
		h, body, ok := p.next(patience)
		if !ok {
			p.t.Fatalf("connection ended or silent")
		}
		if h.Type() != packet.PUBREL {
			return h, body
		}
		p.send(packet.AppendAck(nil, p.version, packet.PUBCOMP, uint16(body[0])<<8|uint16(body[1]), 0))
	}
}

func (p *peer) expect(t packet.Type) []byte {
	p.t.Helper()
	h, body := p.packet()
	if h.Type() != t {
		p.t.Fatalf("%v %x instead of %v", h.Type(), body, t)
	}
	return body
}

// ended waits for the end; the reason is that of a DISCONNECT, 0 without one.
func (p *peer) ended() packet.Reason {
	p.t.Helper()
	reason := packet.Reason(0)
	for {
		h, body, ok := p.next(patience)
		if !ok {
			_ = p.nc.SetReadDeadline(time.Now().Add(patience))
			if _, err := p.nc.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
				p.t.Fatalf("connection goes on: %v", err)
			}
			return reason
		}
		if h.Type() == packet.DISCONNECT {
			var d packet.Disconnect
			if err := d.Decode(p.version, body); err != nil {
				p.t.Fatalf("DISCONNECT %x: %v", body, err)
			}
			reason = d.Reason
		}
	}
}

// quiet proves that nothing is on its way but the answer to a ping.
func (p *peer) quiet() {
	p.t.Helper()
	p.send([]byte{0xC0, 0})
	p.expect(packet.PINGRESP)
}

func (p *peer) subscribe(filter string, qos byte, change ...func(*packet.Subscribe)) {
	p.t.Helper()
	if r := p.trySubscribe(filter, qos, change...); r[0].Failed() {
		p.t.Fatalf("subscribe %s: %v", filter, r)
	}
}

func (p *peer) trySubscribe(filter string, qos byte, change ...func(*packet.Subscribe)) []packet.Reason {
	p.t.Helper()
	s := packet.Subscribe{PacketID: 9, Filters: []packet.Subscription{{Filter: []byte(filter), QoS: qos}}}
	for _, f := range change {
		f(&s)
	}
	p.send(s.Append(nil, p.version))
	var a packet.Suback
	if err := a.Decode(p.version, packet.SUBACK, p.expect(packet.SUBACK)); err != nil || a.PacketID != 9 {
		p.t.Fatalf("SUBACK %+v: %v", a, err)
	}
	return a.Reasons
}

type publish = packet.Publish

func text(topic, payload string) publish {
	return publish{Topic: []byte(topic), Payload: []byte(payload)}
}

// publish sends and, for QoS 1 and 2, goes through the handshake.
func (p *peer) publish(m publish) packet.Reason {
	p.t.Helper()
	if m.QoS > 0 && m.PacketID == 0 {
		m.PacketID = 77
	}
	p.send(m.Append(nil, p.version))
	switch m.QoS {
	case 1:
		return p.ack(packet.PUBACK, m.PacketID)
	case 2:
		if r := p.ack(packet.PUBREC, m.PacketID); r.Failed() {
			return r
		}
		p.send(packet.AppendAck(nil, p.version, packet.PUBREL, m.PacketID, 0))
		return p.ack(packet.PUBCOMP, m.PacketID)
	}
	return packet.Success
}

func (p *peer) ack(t packet.Type, id uint16) packet.Reason {
	p.t.Helper()
	var a packet.Ack
	if err := a.Decode(p.version, t, p.expect(t)); err != nil || a.PacketID != id {
		p.t.Fatalf("%v %+v, want id %d: %v", t, a, id, err)
	}
	return a.Reason
}

// receive reads one PUBLISH and does not acknowledge it.
func (p *peer) receive() publish {
	p.t.Helper()
	h, body := p.packet()
	var m publish
	if h.Type() != packet.PUBLISH {
		p.t.Fatalf("%v %x instead of PUBLISH", h.Type(), body)
	}
	if err := m.Decode(p.version, h, body); err != nil {
		p.t.Fatalf("PUBLISH %x: %v", body, err)
	}
	return m
}

// take receives one PUBLISH with this payload and acknowledges it.
func (p *peer) take(payload string) publish {
	p.t.Helper()
	m := p.receive()
	if string(m.Payload) != payload {
		p.t.Fatalf("received %q on %s, want %q", m.Payload, m.Topic, payload)
	}
	p.acknowledge(m)
	return m
}

func (p *peer) acknowledge(m publish) {
	p.t.Helper()
	switch m.QoS {
	case 1:
		p.send(packet.AppendAck(nil, p.version, packet.PUBACK, m.PacketID, 0))
	case 2:
		p.send(packet.AppendAck(nil, p.version, packet.PUBREC, m.PacketID, 0))
	}
}

// leave says goodbye and waits until the broker knows.
func (n *node) leave(p *peer, id string) {
	n.t.Helper()
	p.send([]byte{0xE0, 0})
	n.gone(id)
	_ = p.nc.Close()
}

// cut drops the connection and waits until the broker knows.
func (n *node) cut(p *peer, id string) {
	n.t.Helper()
	_ = p.nc.Close()
	n.gone(id)
}

func (n *node) gone(id string) {
	n.t.Helper()
	eventually.Holds(n.t, id+" is gone", func() bool { return !n.has(id) })
}

func (n *node) has(id string) bool {
	for c := range n.Clients() {
		if c.ID == id {
			return true
		}
	}
	return false
}
