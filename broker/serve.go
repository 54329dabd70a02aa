package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Serve takes a TCP or TLS listener over and accepts its connections until the
// broker or the context is closed; that is a nil error. It closes the listener.
// Connections made live on until they end or [Broker.Close].
func (b *Broker) Serve(ctx context.Context, name string, l net.Listener) error {
	door := b.stats.door(name)
	if tcp, ok := l.(*net.TCPListener); ok && b.readers.accept(ctx, b, door, tcp) {
		return nil // plain TCP, and the system has shared readers
	}
	if !b.track(l) {
		_ = l.Close()
		return nil
	}
	defer b.untrack(l)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || err != nil && b.isClosed() {
			return nil
		}
		if err != nil { // running out of descriptors passes; a closed listener does not
			if !b.relieve(err) {
				b.log.Warn("accept failed", "listener", name, "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		visit, ok := b.enter(nc.RemoteAddr())
		if !ok {
			_ = nc.Close()
			door.turnedAway.Add(1)
			continue
		}
		b.welcome(ctx, door, nc, visit)
		if b.isClosed() { // it came while the others were told to go
			for _, c := range b.allConns() {
				c.abort()
			}
		}
	}
}

// welcome starts a connection with a goroutine of its own.
func (b *Broker) welcome(ctx context.Context, door *door, nc net.Conn, visit *gate.Visit) {
	c := b.newConn(door, nc.RemoteAddr(), visit)
	s := newStream(c, nc)
	c.transport = s
	b.addConn(c)
	visit.CutBy(c.abort)
	b.serving.Go(func() {
		if t, ok := nc.(*tls.Conn); ok {
			peer, err := handshake(ctx, t, b.options.Limits.ConnectTimeout)
			if err != nil {
				b.log.Debug("TLS handshake failed", "listener", door.name, "remote", nc.RemoteAddr(), "error", err)
				b.report(Refusal{Of: OfHandshake, Remote: nc.RemoteAddr(), Listener: door.name, Handshake: err})
				c.abort()
				return
			}
			c.peer = peer
		}
		s.read()
	})
}

// Inside connects a part of the bridge itself, as one more MQTT client: it may
// do what who it acts for may, by the same checks. The broker's side is served
// until either side closes it.
func (b *Broker) Inside(name string, who grant.Grant) (net.Conn, error) {
	if !b.begin() {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	c := b.newConn(b.stats.door(name), ours.RemoteAddr(), nil)
	c.known = &who
	s := newStream(c, ours)
	c.transport = s
	b.addConn(c)
	go func() {
		defer b.serving.Done()
		s.read()
	}()
	return theirs, nil
}

func (b *Broker) newConn(door *door, remote net.Addr, visit *gate.Visit) *conn {
	door.open.Add(1)
	door.accepted.Add(1)
	return &conn{b: b, door: door, remote: remote, visit: visit, accepted: b.clock.Steady()}
}

// handshake completes TLS, so that the peer's certificate is known.
func handshake(ctx context.Context, t *tls.Conn, patience time.Duration) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := t.ConnectionState()
	return verifiedPeer(&state), nil
}

func verifiedPeer(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// WebSocket returns the handler for MQTT over WebSocket. Clients must offer
// the subprotocol mqtt [MQTT-6.0.0-3]. The caller checks Host and Origin.
func (b *Broker) WebSocket(name string) http.Handler {
	return b.WebSocketOf(name, func(*http.Request) *grant.Grant { return nil })
}

// WebSocketOf is [Broker.WebSocket] for requests that say who sends them: known
// yields what the sender stands on, which [Credentials] have as Known, or nil. It is asked
// before the connection is a WebSocket.
func (b *Broker) WebSocketOf(name string, known func(*http.Request) *grant.Grant) http.Handler {
	door := b.stats.door(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sender := known(r)
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols:       []string{"mqtt"}, // [MQTT-6.0.0-4]
			InsecureSkipVerify: true,             // Origin: the caller's
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil {
			return // Accept has answered
		}
		if ws.Subprotocol() != "mqtt" {
			_ = ws.Close(websocket.StatusPolicyViolation, "subprotocol mqtt required")
			return
		}
		// [MQTT-6.0.0-1] [MQTT-6.0.0-2] binary frames, packets anywhere in them
		nc := webSocketConn{websocket.NetConn(context.Background(), ws, websocket.MessageBinary), ws}
		visit := gate.FromContext(r.Context())
		if visit == nil { // the server does not count
			var ok bool
			if visit, ok = b.enter(nc.RemoteAddr()); !ok {
				_ = ws.Close(websocket.StatusTryAgainLater, "too many connections")
				return
			}
		}
		if !b.begin() {
			visit.Leave()
			_ = ws.Close(websocket.StatusGoingAway, "shutting down")
			return
		}
		defer b.serving.Done()
		c := b.newConn(door, nc.RemoteAddr(), visit)
		c.peer, c.known = verifiedPeer(r.TLS), sender
		s := newStream(c, nc)
		c.transport = s
		b.addConn(c)
		visit.CutBy(c.abort)
		s.read()
	})
}

// A webSocketConn closes without waiting for the peer's closing handshake.
type webSocketConn struct {
	net.Conn
	ws *websocket.Conn
}

func (c webSocketConn) Close() error { return c.ws.CloseNow() }

// begin counts a connection that Close waits for.
func (b *Broker) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.serving.Add(1)
	return true
}

func (b *Broker) track(l io.Closer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.listeners[l] = struct{}{}
	b.serving.Add(1)
	return true
}

func (b *Broker) untrack(l io.Closer) {
	_ = l.Close()
	b.mu.Lock()
	delete(b.listeners, l)
	b.mu.Unlock()
	b.serving.Done()
}
