package listen

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	firstBytesTimeout = 10 * time.Second // as for the headers of a request
	maxUndecided      = 4096             // connections whose first bytes are not there yet
)

// A settlingListener reads the first bytes of its connections before it gives
// them away, all of them concurrently: a silent one delays no other.
type settlingListener struct {
	net.Listener
	settle func(net.Conn) (net.Conn, error)

	accepted chan net.Conn
	failed   chan error
	done     chan struct{}
	slots    chan struct{}
	tasks    sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	undecided map[net.Conn]struct{}
}

func newSettlingListener(l net.Listener, settle func(net.Conn) (net.Conn, error)) *settlingListener {
	e := &settlingListener{
		Listener: l, settle: settle,
		accepted: make(chan net.Conn), failed: make(chan error), done: make(chan struct{}),
		slots: make(chan struct{}, maxUndecided), undecided: make(map[net.Conn]struct{}),
	}
	e.tasks.Go(e.run)
	return e
}

// Accept returns the next connection that is settled.
func (e *settlingListener) Accept() (net.Conn, error) {
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
func (e *settlingListener) Close() error {
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

func (e *settlingListener) run() {
	for {
		c, err := e.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the server knows which pass
			select {
			case e.failed <- err:
				continue
			case <-e.done:
				return
			}
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

func (e *settlingListener) track(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = c.Close()
		return false
	}
	e.undecided[c] = struct{}{}
	return true
}

// decide settles the kind of a connection.
func (e *settlingListener) decide(c net.Conn) {
	defer func() { <-e.slots }()
	_ = c.SetReadDeadline(time.Now().Add(firstBytesTimeout))
	ready, err := e.settle(c)
	e.mu.Lock()
	delete(e.undecided, c)
	e.mu.Unlock()
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	select {
	case e.accepted <- ready:
	case <-e.done:
		_ = c.Close()
	}
}

// A begunConn gives back the bytes that were read of it.
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
