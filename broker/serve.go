package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"time"

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
		b.welcome(door, nc, visit)
		if b.isClosed() { // it came while the others were told to go
			for _, c := range b.allConns() {
				c.abort()
			}
		}
	}
}

// welcome starts a connection with a goroutine of its own.
func (b *Broker) welcome(door *door, nc net.Conn, visit *gate.Visit) {
	c := b.newConn(door, nc.RemoteAddr(), visit)
	s := newStream(c, nc)
	c.transport = s
	b.addConn(c)
	visit.CutBy(c.abort)
	b.serving.Go(func() {
		if t, ok := nc.(*tls.Conn); ok {
			peer, err := handshake(t, b.options.Limits.ConnectTimeout)
			if err != nil {
				b.log.Debug("TLS handshake failed", "listener", door.name, "remote", nc.RemoteAddr(), "error", err)
				b.report(Refusal{Of: OfHandshake, Remote: nc.RemoteAddr(), Listener: door.name, Handshake: err})
				c.abort()
				return
			}
			c.peer = peer
			if w, ok := t.NetConn().(*wire); ok && b.readers.adopt(c, w.nc, &tlsLayer{w, t}) {
				return
			}
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
	c := &conn{b: b, door: door, remote: remote, visit: visit, accepted: b.clock.Steady()}
	c.mayTake(b.options.Limits.ConnectTimeout)
	return c
}

// handshake completes TLS, so that the peer's certificate is known. A deadline takes
// no goroutine, as a context would; a broker that stops closes t.
func handshake(t *tls.Conn, patience time.Duration) (*x509.Certificate, error) {
	if err := t.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	if err := t.SetDeadline(time.Time{}); err != nil {
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
