package listen

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A Lobby answers over HTTP while a bridge starts, which takes long where it
// has to wait for NATS or for another bridge.
type Lobby struct {
	why      atomic.Pointer[string]
	listener *net.TCPListener
	server   *http.Server // nil if it is not open
	done     chan struct{}
}

// NewLobby returns a lobby that is not open, with the reason that it answers with.
func NewLobby(why string) *Lobby {
	l := &Lobby{done: make(chan struct{})}
	l.Waits(why)
	return l
}

// Waits sets the reason in answers.
func (l *Lobby) Waits(why string) { l.why.Store(&why) }

// Why is the reason in answers.
func (l *Lobby) Why() string { return *l.why.Load() }

// Open serves the TCP listener of a name until Close.
func (l *Lobby) Open(on *Sockets, name string, server *http.Server) {
	l.listener, l.server = on.listeners[name].(*net.TCPListener), server
	lent := behind(on.addresses[name].Proxies, lentListener{l.listener})
	go func() {
		defer close(l.done)
		_ = server.Serve(lent)
	}()
}

// Close gives the listener back to the server that serves it from now on. A second
// call does nothing.
func (l *Lobby) Close(ctx context.Context) error {
	if l.server == nil {
		return nil
	}
	err := l.server.Shutdown(ctx)
	<-l.done
	if err == nil {
		err = l.listener.SetDeadline(time.Time{})
	}
	if err != nil {
		return fmt.Errorf("lobby: %w", err)
	}
	l.server = nil
	return nil
}

// A lentListener is one that others go on with after it is closed.
type lentListener struct{ *net.TCPListener }

// Close ends Accept, and leaves the listener open.
func (l lentListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
