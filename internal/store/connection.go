package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/protocol"
)

// A connection is a connection to NATS, with its state. A request that waits for an
// answer learns at once when it goes down.
type connection struct {
	conn   *nats.Conn
	events chan nats.Status
	done   chan struct{}

	mu      sync.Mutex
	session *connectedSpan
}

// A connectedSpan lasts from one connect to the next disconnect.
type connectedSpan struct {
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	up     chan struct{} // closed once connected
}

var (
	errNotConnected = errors.New("not connected to NATS")
	errLinkLost     = errors.New("the connection to NATS was lost")
)

func newConnection(conn *nats.Conn) *connection {
	l := &connection{
		conn:    conn,
		events:  conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED),
		done:    make(chan struct{}),
		session: newSession(),
	}
	l.update(conn.Status())
	go l.watch()
	return l
}

func newSession() *connectedSpan {
	ctx, cancel := context.WithCancel(context.Background())
	return &connectedSpan{ctx: ctx, cancel: cancel, up: make(chan struct{})}
}

func (s *connectedSpan) isUp() bool {
	select {
	case <-s.up:
		return true
	default:
		return false
	}
}

// during is ctx, ended by the end of the session too. Its cause then is
// errLinkLost. A session that has yet to begin does not end.
func (s *connectedSpan) during(ctx context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errLinkLost) })
	return both, func() {
		stop()
		cancel(nil)
	}
}

func (l *connection) watch() {
	defer close(l.done)
	for status := range l.events {
		l.update(status)
	}
}

func (l *connection) update(status nats.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	up := l.session.isUp()
	switch {
	case status == nats.CONNECTED && !up:
		close(l.session.up)
	case status != nats.CONNECTED && up:
		l.session.cancel()
		l.session = newSession()
	}
}

// current is the session that is up, or the one that will be.
func (l *connection) current() *connectedSpan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// connected waits for the connection and returns its session.
func (l *connection) connected(ctx context.Context) (*connectedSpan, error) {
	s := l.current()
	select {
	case <-s.up:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close stops watching the connection; it stays open.
func (l *connection) close() {
	l.conn.RemoveStatusListener(l.events)
	<-l.done
	l.current().cancel()
}

// request sends a message and waits for the one that answers it, until ctx
// ends or the connection is lost.
func (l *connection) request(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	s := l.current()
	if !s.isUp() {
		return nil, errNotConnected
	}
	during, cancel := s.during(ctx)
	defer cancel()
	answer, err := l.conn.RequestMsgWithContext(during, msg)
	if err != nil && ctx.Err() == nil && s.ctx.Err() != nil {
		return nil, errLinkLost
	}
	return answer, err
}

// unavailable is the 5001 for a failed request. Its text says whether the request
// can have had an effect.
func unavailable(err error) error {
	return unanswered(err, "the store did not confirm the write, which may have happened")
}

// unread is the error of a failed read.
func unread(err error) error { return unanswered(err, "the store does not answer") }

// unwritten is the 5001 for a failed write: [protocol.ErrUnconfirmed] is a cause of it
// if the write may have happened.
func unwritten(err error) error {
	if !isUnsent(err) {
		err = fmt.Errorf("%w: %w", protocol.ErrUnconfirmed, err)
	}
	return unavailable(err)
}

// unanswered is the error of an unanswered request, with the text sent for an unknown
// outcome.
func unanswered(err error, sent string) error {
	switch {
	case !isUnsent(err):
		return protocol.Wrap(protocol.StoreUnavailable, err, sent)
	case errors.Is(err, nats.ErrNoResponders):
		return protocol.Wrap(protocol.StoreUnavailable, err, "the store does not answer")
	}
	return protocol.Wrap(protocol.StoreUnavailable, err, "the store is not connected")
}

// isUnsent reports whether a request that failed has reached nobody.
func isUnsent(err error) bool {
	return errors.Is(err, errNotConnected) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrMaxPayload)
}
