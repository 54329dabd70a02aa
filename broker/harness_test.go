package broker_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// patience bounds every wait; nothing comes near it unless it fails.
const patience = eventually.Patience

// A node is a running broker with its surroundings recorded.
type node struct {
	*broker.Broker
	t    *testing.T
	tcp  string // address
	web  string // ws:// URL
	seen recorder
}

// newNode starts a broker on loopback; see authenticate and permissions.
func newNode(t *testing.T, change ...func(*broker.Options)) *node {
	t.Helper()
	return newHandlingNode(t, func(*broker.Broker) {}, change...)
}

// newHandlingNode lets handle add handlers before the broker serves.
func newHandlingNode(t *testing.T, handle func(*broker.Broker), change ...func(*broker.Options)) *node {
	t.Helper()
	n := &node{t: t}
	options := broker.Options{
		Authenticate: authenticate,
		Permissions:  permissions{},
		Presence:     &n.seen,
	}
	for _, f := range change {
		f(&options)
	}
	b, err := broker.New(options)
	if err != nil {
		t.Fatal(err)
	}
	n.Broker = b
	handle(b)
	n.tcp = n.listen(func(l net.Listener) {
		if err := b.Serve(context.Background(), "mqtt", l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	web := &http.Server{Handler: b.WebSocket("ws")}
	n.web = "ws://" + n.listen(func(l net.Listener) { _ = web.Serve(l) })
	t.Cleanup(func() {
		_ = web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

func (n *node) listen(serve func(net.Listener)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); serve(l) }()
	n.t.Cleanup(func() { <-done })
	return l.Addr().String()
}

// authenticate: a user's name is the password.
func authenticate(_ context.Context, shown broker.Credentials) (*protocol.Principal, error) {
	if shown.Username != "" && shown.Username != string(shown.Password) {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "no such key")
	}
	return &protocol.Principal{ID: "user:" + shown.Username, Space: protocol.DefaultSpace}, nil
}

// home is the session of a client of the default space.
func home(id string) broker.SessionID {
	return broker.SessionID{Space: protocol.DefaultSpace, Client: id}
}

// permissions refuse forbidden/… to all, and to retain under fleeting/.
type permissions struct{}

func (permissions) MayPublish(_ *broker.Client, topic string, retain bool) broker.Verdict {
	if strings.HasPrefix(topic, "forbidden/") {
		return broker.NotAuthorized("not your topic")
	}
	if retain && strings.HasPrefix(topic, "fleeting/") {
		return broker.Verdict{Reason: 0x9A, Text: "nothing is retained here"}
	}
	return broker.Verdict{}
}

func (permissions) MaySubscribe(_ *broker.Client, filter string) broker.Verdict {
	if strings.HasPrefix(filter, "forbidden/") {
		return broker.NotAuthorized("not your filter")
	}
	return broker.Verdict{}
}

// A recorder keeps what presence and handlers were told, one line each.
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

func (r *recorder) Connected(c *broker.Client) { r.add("%s connected v%d", c.ID, c.Version) }
func (r *recorder) Disconnected(c *broker.Client, reason string) {
	r.add("%s disconnected: %s", c.ID, reason)
}
func (r *recorder) Subscribed(c *broker.Client, f string)   { r.add("%s subscribed %s", c.ID, f) }
func (r *recorder) Unsubscribed(c *broker.Client, f string) { r.add("%s unsubscribed %s", c.ID, f) }

// expect waits until exactly these lines were recorded.
func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	eventually.Holds(t, fmt.Sprintf("record %q", want), func() bool { return slices.Equal(r.all(), want) },
		func() any { return r.all() })
}

// A peer is an MQTT 5 client.
type peer struct {
	*paho.Client
	t        *testing.T
	conn     net.Conn
	messages chan *paho.Publish
	dropped  chan *paho.Disconnect // DISCONNECT from the server
	lost     chan error
}

// connect opens an MQTT 5 connection and fails the test if it is refused.
func (n *node) connect(clientID string, change ...func(*paho.Connect)) *peer {
	n.t.Helper()
	p, _, err := n.dial(clientID, change...)
	if err != nil {
		n.t.Fatalf("connect %s: %v", clientID, err)
	}
	return p
}

func (n *node) dial(clientID string, change ...func(*paho.Connect)) (*peer, *paho.Connack, error) {
	n.t.Helper()
	c, err := net.Dial("tcp", n.tcp)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.dialOver(c, clientID, change...)
}

func (n *node) dialOver(c net.Conn, clientID string, change ...func(*paho.Connect)) (*peer, *paho.Connack, error) {
	p := &peer{
		t: n.t, conn: c,
		messages: make(chan *paho.Publish, 100),
		dropped:  make(chan *paho.Disconnect, 1),
		lost:     make(chan error, 10),
	}
	p.Client = paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(c), // packets of paho leave in several writes
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			p.messages <- r.Packet
			return true, nil
		}},
		OnServerDisconnect: func(d *paho.Disconnect) { p.dropped <- d },
		OnClientError: func(err error) {
			select {
			case p.lost <- err:
			default:
			}
		},
		PacketTimeout: patience,
	})
	cp := &paho.Connect{ClientID: clientID, CleanStart: true, KeepAlive: 30}
	for _, f := range change {
		f(cp)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ack, err := p.Connect(ctx, cp)
	n.t.Cleanup(func() {
		_ = p.Disconnect(&paho.Disconnect{})
		_ = c.Close()
		if err == nil {
			<-p.Done()
		}
	})
	return p, ack, err
}

func (n *node) webSocket() net.Conn {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, n.web, &websocket.DialOptions{Subprotocols: []string{"mqtt"}})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = ws.CloseNow() })
	return &lockedConn{Conn: websocket.NetConn(context.Background(), ws, websocket.MessageBinary)}
}

// lockedConn makes writes of the paho client's goroutines take turns.
type lockedConn struct {
	net.Conn
	sync.Mutex
}

func as(user string) func(*paho.Connect) {
	return func(c *paho.Connect) {
		c.Username, c.UsernameFlag = user, true
		c.Password, c.PasswordFlag = []byte(user), true
	}
}

func keepSession(c *paho.Connect) {
	c.CleanStart = false
	expiry := uint32(60)
	c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &expiry, RequestProblemInfo: true}
}

func (p *peer) subscribe(filter string, qos byte) {
	p.t.Helper()
	if ack, err := p.trySubscribe(filter, qos); err != nil {
		p.t.Fatalf("subscribe %s: %v %v", filter, err, ack)
	}
}

func (p *peer) trySubscribe(filter string, qos byte) (*paho.Suback, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
}

func (p *peer) publish(m *paho.Publish) *paho.PublishResponse {
	p.t.Helper()
	r, err := p.tryPublish(m)
	if err != nil {
		p.t.Fatalf("publish %s: %v", m.Topic, err)
	}
	return r
}

func (p *peer) tryPublish(m *paho.Publish) (*paho.PublishResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Publish(ctx, m)
}

func (p *peer) receive() *paho.Publish {
	p.t.Helper()
	select {
	case m := <-p.messages:
		return m
	case <-time.After(patience):
		p.t.Fatal("no message arrived")
		return nil
	}
}

// nothingElse proves that no earlier message is on its way: a marker sent
// after it arrives first.
func (n *node) nothingElse(p *peer) {
	n.t.Helper()
	p.subscribe("marker", 0)
	if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "marker"}); err != nil {
		n.t.Fatal(err)
	}
	if m := p.receive(); m.Topic != "marker" {
		n.t.Fatalf("unexpected message on %s: %s", m.Topic, m.Payload)
	}
}

func reasonOf(t *testing.T, r *paho.PublishResponse, err error) (byte, string) {
	t.Helper()
	if r == nil {
		t.Fatalf("no acknowledgement: %v", err)
	}
	text := ""
	if r.Properties != nil {
		text = r.Properties.ReasonString
	}
	return r.ReasonCode, text
}
