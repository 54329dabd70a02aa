package broker

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// takeoverTimeout bounds the wait for a client whose id was taken over.
const takeoverTimeout = 2 * time.Second

// A conn is a connection with what the broker knows about it.
type conn struct {
	net.Conn
	listener string
	peer     *x509.Certificate
	session  *session // set when CONNECT was accepted
}

// A session is one connection's claim to a client id. It stays behind as the
// owner of the id while the engine keeps the session of a client that is away.
type session struct {
	client   *Client
	engine   *mqtt.Client
	presence Presence
	ended    chan struct{} // closed when the connection is gone

	mu     sync.Mutex // orders presence calls
	alive  bool
	reason string // why the broker ended the connection, if it did

	verdicts []Verdict // of the SUBSCRIBE that is being processed
}

func sessionOf(cl *mqtt.Client) *session {
	if c, ok := cl.Net.Conn.(*conn); ok {
		return c.session
	}
	return nil
}

func (s *session) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

// tell calls the presence while the session lives.
func (s *session) tell(what func(Presence)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive && s.presence != nil {
		what(s.presence)
	}
}

// claim makes s the session of its client id. An id that belongs to another
// principal is refused; the same principal's earlier connection is ended, and
// gone when claim returns.
func (b *Broker) claim(s *session) packets.Code {
	old, code := b.replace(s)
	if code != packets.CodeSuccess {
		return code
	}
	if old != nil {
		b.takeOver(old)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = true
	if s.presence != nil {
		s.presence.Connected(s.client)
	}
	return packets.CodeSuccess
}

func (b *Broker) replace(s *session) (old *session, code packets.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, packets.ErrServerShuttingDown
	}
	old = b.sessions[s.client.ID]
	if old != nil && old.client.Principal.ID != s.client.Principal.ID {
		return nil, packets.Code{Code: packets.ErrNotAuthorized.Code, Reason: "client id belongs to another principal"}
	}
	b.sessions[s.client.ID] = s
	return old, packets.CodeSuccess
}

func (b *Broker) takeOver(old *session) {
	select {
	case <-old.ended:
		return // was away
	default:
	}
	b.disconnect(old, packets.ErrSessionTakenOver)
	ctx, cancel := context.WithTimeout(context.Background(), takeoverTimeout)
	defer cancel()
	select {
	case <-old.ended:
	case <-ctx.Done():
		old.leave(packets.ErrSessionTakenOver.Reason)
	}
}

// because notes why the broker is ending the connection. The client may hang
// up before the broker does.
func (s *session) because(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = reason
}

// leave tells the presence, once, that the client is gone.
func (s *session) leave(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != "" {
		reason = s.reason
	}
	if s.alive && s.presence != nil {
		s.presence.Disconnected(s.client, reason)
	}
	s.alive = false
}

// end settles a session whose connection is gone, also where the engine gave
// up half way and left the client in its tables.
func (b *Broker) end(s *session) {
	s.leave(endReason(s.engine.StopCause()))
	if expires(s.engine) {
		if known, _ := b.server.Clients.Get(s.client.ID); known == s.engine {
			b.server.Clients.Delete(s.client.ID)
			b.server.UnsubscribeClient(s.engine)
			s.engine.ClearInflights()
		}
		b.forget(s.engine)
	}
	close(s.ended)
}

// forget gives up the claim to the client id of an expired session.
func (b *Broker) forget(cl *mqtt.Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[cl.ID]; s != nil && s.engine == cl {
		delete(b.sessions, cl.ID)
	}
}

// expires reports whether the session ends with its connection.
func expires(cl *mqtt.Client) bool {
	if cl.Properties.ProtocolVersion < 5 {
		return cl.Properties.Clean
	}
	return cl.Properties.Props.SessionExpiryInterval == 0
}

func endReason(cause error) string {
	var timeout net.Error
	switch {
	case cause == nil:
		return "connection closed"
	case errors.Is(cause, packets.CodeDisconnect):
		return "client disconnected"
	case errors.Is(cause, io.EOF), errors.Is(cause, net.ErrClosed):
		return "connection lost"
	case errors.Is(cause, os.ErrDeadlineExceeded), errors.As(cause, &timeout) && timeout.Timeout():
		return "keep alive timeout"
	}
	return cause.Error()
}
