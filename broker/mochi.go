package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/aibridge/aibridge/protocol"
)

const (
	defaultMaxPacket = 1<<20 + 64<<10

	connectTimeout    = 10 * time.Second // from accept to CONNECT, TLS handshake included
	disconnectTimeout = time.Second      // for writing a DISCONNECT to a client that does not read
	maxSessionExpiry  = 7 * 24 * time.Hour
	sysInterval       = 60 // seconds between $SYS updates
)

// errClosed is what calls on a closed broker answer.
var errClosed = errors.New("broker is closed")

// A Broker is the MQTT server. It stands on mochi-mqtt, kept thin: mochi's
// listeners are not used, so that every connection passes through
// [Broker.attach].
type Broker struct {
	options Options
	log     *slog.Logger
	server  *mqtt.Server
	bridge  *mqtt.Client // what the bridge publishes as

	handlers []handler // fixed before Serve

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session // by client id, connected or kept
	conns    map[*conn]struct{}
	closers  map[net.Listener]struct{}
	running  sync.WaitGroup // accept loops and connections
}

type handler struct {
	filter string
	fn     func(*Publication)
}

// New returns a broker that serves nothing yet.
func New(options Options) (*Broker, error) {
	if options.Authenticate == nil || options.Permissions == nil {
		return nil, errors.New("broker: Authenticate and Permissions are required")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.MaxPacket == 0 {
		options.MaxPacket = defaultMaxPacket
	}
	if options.MaxPacket < 0 || options.MaxPacket > math.MaxInt32 {
		return nil, fmt.Errorf("broker: MaxPacket %d is out of range", options.MaxPacket)
	}

	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MaximumPacketSize = uint32(options.MaxPacket)
	capabilities.MaximumSessionExpiryInterval = uint32(maxSessionExpiry / time.Second)
	capabilities.MaximumMessageExpiryInterval = 0 // else every message is given an expiry
	capabilities.MinimumProtocolVersion = 4
	capabilities.Compatibilities.NoInheritedPropertiesOnAck = true

	b := &Broker{
		options:  options,
		log:      options.Log,
		sessions: make(map[string]*session),
		conns:    make(map[*conn]struct{}),
		closers:  make(map[net.Listener]struct{}),
		// The engine's own log quotes whole packets, passwords included.
		server: mqtt.New(&mqtt.Options{
			Capabilities:           capabilities,
			Logger:                 slog.New(slog.DiscardHandler),
			SysTopicResendInterval: sysInterval,
		}),
	}
	if err := b.server.AddHook(&hook{broker: b}, nil); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	b.bridge = b.server.NewClient(nil, mqtt.LocalListener, "$bridge", true)
	b.bridge.Properties.ProtocolVersion = 5
	if err := b.server.Serve(); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return b, nil
}

// Handle lets fn see every publication of a client whose topic the filter
// covers, wills included, after it was permitted and before it is routed to
// subscribers. Call it before [Broker.Serve]. The function is called on the
// connection's own goroutine, in the client's order, and must not block.
// What the bridge publishes itself is not seen.
func (b *Broker) Handle(filter string, fn func(*Publication)) {
	b.handlers = append(b.handlers, handler{filter, fn})
}

// Serve accepts connections from a TCP or TLS listener until it, the broker
// or the context is closed; that is a nil error. It closes the listener.
// Connections made live on until they end or [Broker.Close].
func (b *Broker) Serve(ctx context.Context, name string, l net.Listener) error {
	if !b.track(l) {
		_ = l.Close()
		return nil
	}
	defer b.untrack(l)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()

	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || err != nil && b.isClosed() {
			return nil
		}
		if err != nil {
			// Running out of descriptors passes; a closed listener does not.
			b.log.Warn("accept failed", "listener", name, "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		wrapped := &conn{Conn: c, listener: name}
		if !b.admit(wrapped) {
			_ = c.Close()
			return nil
		}
		go func() {
			defer b.release(wrapped)
			if err := b.handshake(ctx, wrapped); err != nil {
				b.log.Debug("TLS handshake failed", "listener", name, "remote", c.RemoteAddr(), "error", err)
				return
			}
			b.attach(wrapped)
		}()
	}
}

// handshake completes TLS, so that the peer's certificate is known.
func (b *Broker) handshake(ctx context.Context, c *conn) error {
	t, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	state := t.ConnectionState()
	c.peer = verifiedPeer(&state)
	return nil
}

func verifiedPeer(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// attach speaks MQTT on a connection until it ends. The decoder panics on
// some malformed packets (a SUBSCRIBE without options byte); such a packet
// costs its sender the connection and nobody else anything.
func (b *Broker) attach(c *conn) {
	defer func() {
		if cause := recover(); cause != nil {
			b.log.Warn("connection dropped on malformed packet", "listener", c.listener, "remote", c.RemoteAddr(), "error", cause)
		}
		if c.session != nil {
			b.end(c.session)
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(connectTimeout))
	if err := b.server.EstablishConnection(c.listener, c); err != nil {
		b.log.Debug("connection ended", "listener", c.listener, "remote", c.RemoteAddr(), "error", err)
	}
}

// Publish sends a message from the bridge to its subscribers, without
// permission check. Receivers counts the connected sessions it was written
// to or queued for; sessions that are away are not counted. The message is
// copied; the caller keeps its slices.
func (b *Broker) Publish(m Message) (receivers int, err error) {
	if reason := protocol.CheckTopic(m.Topic); reason != "" {
		return 0, fmt.Errorf("broker: topic %q %s", m.Topic, reason)
	}
	if m.QoS > 2 {
		return 0, fmt.Errorf("broker: QoS %d", m.QoS)
	}
	if b.isClosed() {
		return 0, errClosed
	}

	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: m.QoS, Retain: m.Retain},
		TopicName:   m.Topic,
		Payload:     m.Payload,
		Properties: packets.Properties{
			ContentType:           m.ContentType,
			ResponseTopic:         m.ResponseTopic,
			CorrelationData:       m.CorrelationData,
			MessageExpiryInterval: wireExpiry(m.Expiry),
		},
	}
	if m.QoS > 0 {
		pk.PacketID = 1 // only has to be there
	}
	for _, p := range m.UserProperties {
		pk.Properties.User = append(pk.Properties.User, packets.UserProperty{Key: p.Key, Val: p.Value})
	}
	receivers = b.online(m.Topic)
	if err := b.server.InjectPacket(b.bridge, pk); err != nil {
		return 0, fmt.Errorf("broker: publish to %s: %w", m.Topic, err)
	}
	return receivers, nil
}

// wireExpiry is a time left in whole seconds, rounded up, 0 for none.
func wireExpiry(left time.Duration) uint32 {
	if left <= 0 {
		return 0
	}
	seconds := (left + time.Second - 1) / time.Second
	return uint32(min(seconds, math.MaxUint32))
}

// online counts the connected sessions a message on topic goes to.
func (b *Broker) online(topic string) int {
	subscribers := b.server.Topics.Subscribers(topic)
	n := 0
	for id := range subscribers.Subscriptions {
		if b.connected(id) {
			n++
		}
	}
	for _, group := range subscribers.Shared {
		for id := range group {
			if b.connected(id) {
				n++
				break
			}
		}
	}
	return n
}

func (b *Broker) connected(clientID string) bool {
	c, ok := b.server.Clients.Get(clientID)
	return ok && c.Net.Conn != nil && !c.Closed()
}

// Disconnect ends a client's connection; its session is kept as its expiry
// says. An MQTT 5 client is told the reason code and the text. It reports
// whether the client was connected.
func (b *Broker) Disconnect(clientID string, reason byte, text string) bool {
	b.mu.Lock()
	s := b.sessions[clientID]
	b.mu.Unlock()
	if s == nil || !s.live() {
		return false
	}
	b.disconnect(s, packets.Code{Code: reason, Reason: text})
	return true
}

func (b *Broker) disconnect(s *session, code packets.Code) {
	s.because(code.Reason)
	if s.engine.Properties.ProtocolVersion < 5 { // has no DISCONNECT from the server
		s.engine.Stop(code)
		return
	}
	// Also wakes a write that is stuck, and with it the lock it holds.
	_ = s.engine.Net.Conn.SetWriteDeadline(time.Now().Add(disconnectTimeout))
	_ = b.server.DisconnectClient(s.engine, code)
}

// Clients yields the connected clients, in no order.
func (b *Broker) Clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, s := range b.connectedSessions() {
			if !yield(s.client) {
				return
			}
		}
	}
}

func (b *Broker) connectedSessions() []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	var live []*session
	for _, s := range b.sessions {
		if s.live() {
			live = append(live, s)
		}
	}
	return live
}

// Close stops listening, tells every client that the server is shutting down
// and returns when all connections have ended, or with the context's error.
func (b *Broker) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	for l := range b.closers {
		_ = l.Close()
	}
	b.mu.Unlock()

	done := make(chan struct{})
	go func() {
		defer close(done)
		var told sync.WaitGroup
		for _, s := range b.connectedSessions() {
			told.Go(func() { b.disconnect(s, packets.ErrServerShuttingDown) })
		}
		told.Wait()
		b.mu.Lock()
		for c := range b.conns {
			_ = c.Close()
		}
		b.mu.Unlock()
		b.running.Wait()
		_ = b.server.Close()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Broker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *Broker) track(l net.Listener) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.closers[l] = struct{}{}
	b.running.Add(1)
	return true
}

func (b *Broker) untrack(l net.Listener) {
	_ = l.Close()
	b.mu.Lock()
	delete(b.closers, l)
	b.mu.Unlock()
	b.running.Done()
}

func (b *Broker) admit(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.conns[c] = struct{}{}
	b.running.Add(1)
	return true
}

func (b *Broker) release(c *conn) {
	_ = c.Close()
	b.mu.Lock()
	delete(b.conns, c)
	b.mu.Unlock()
	b.running.Done()
}
