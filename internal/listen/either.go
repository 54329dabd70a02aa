package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	firstByteTimeout = 10 * time.Second // as for the headers of a request
	maxUndecided     = 4096             // connections that have not sent a byte yet
)

// An eitherListener serves TLS and plain connections on one port. What a
// connection is shows in its first byte, which for TLS is always 22.
type eitherListener struct {
	net.Listener
	config *tls.Config

	accepted chan net.Conn
	failed   chan error
	done     chan struct{}
	slots    chan struct{}
	tasks    sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	undecided map[net.Conn]struct{}
}

// Secure serves TLS on a listener: alone, or beside plain connections.
func Secure(l net.Listener, config *tls.Config, only bool) net.Listener {
	if only {
		return tls.NewListener(l, config)
	}
	return newEitherListener(l, config)
}

func newEitherListener(l net.Listener, config *tls.Config) *eitherListener {
	e := &eitherListener{
		Listener: l, config: config,
		accepted: make(chan net.Conn), failed: make(chan error), done: make(chan struct{}),
		slots: make(chan struct{}, maxUndecided), undecided: make(map[net.Conn]struct{}),
	}
	e.tasks.Go(e.run)
	return e
}

// Accept returns the next connection whose first byte is there: a *tls.Conn
// that has not shaken hands yet, or a plain one.
func (e *eitherListener) Accept() (net.Conn, error) {
	select {
	case c := <-e.accepted:
		return c, nil
	case err := <-e.failed:
		return nil, err
	case <-e.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener, and the connections that it has not given away.
func (e *eitherListener) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return net.ErrClosed
	}
	e.closed = true
	close(e.done)
	for c := range e.undecided {
		_ = c.Close()
	}
	e.mu.Unlock()
	err := e.Listener.Close()
	e.tasks.Wait()
	return err
}

func (e *eitherListener) run() {
	for {
		c, err := e.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the server knows which pass
			select {
			case e.failed <- err:
			case <-e.done:
			}
			continue
		}
		select {
		case e.slots <- struct{}{}:
		default: // a flood of the silent
			_ = c.Close()
			continue
		}
		if e.track(c) {
			e.tasks.Go(func() { e.decide(c) })
		}
	}
}

func (e *eitherListener) track(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = c.Close()
		return false
	}
	e.undecided[c] = struct{}{}
	return true
}

// decide waits for the first byte of a connection.
func (e *eitherListener) decide(c net.Conn) {
	defer func() { <-e.slots }()
	var first [1]byte
	_ = c.SetReadDeadline(time.Now().Add(firstByteTimeout))
	_, err := io.ReadFull(c, first[:])
	e.mu.Lock()
	delete(e.undecided, c)
	e.mu.Unlock()
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	var ready net.Conn = &begunConn{Conn: c, first: first[:]}
	if first[0] == tlsHandshake {
		ready = tls.Server(ready, e.config)
	}
	select {
	case e.accepted <- ready:
	case <-e.done:
		_ = c.Close()
	}
}

// tlsHandshake is the type of the record that TLS begins with.
const tlsHandshake = 22

// A begunConn gives back the byte that was read of it.
type begunConn struct {
	net.Conn
	first []byte
}

func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 && len(b) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// NetConn is the connection below.
func (c *begunConn) NetConn() net.Conn { return c.Conn }

// ReadFrom lets files be sent without copying, as the connection itself does.
func (c *begunConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(c.Conn, r)
}
