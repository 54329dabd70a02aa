package drill

import (
	"net"
	"sync"
)

// A link carries connections from one party to another, until it is cut.
type link struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	state linkState
	freed chan struct{} // closed when a hanging link carries again
	pairs map[net.Conn]net.Conn
}

type linkState uint8

const (
	carries linkState = iota
	hangs             // connections stay and nothing comes through, as behind a switch that failed
	resets            // connections are closed, and new ones too
)

// newLink listens on a host for connections to a target.
func newLink(host, target string) (*link, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, target: target, freed: make(chan struct{}), pairs: make(map[net.Conn]net.Conn)}
	close(l.freed)
	go l.accept()
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// set changes the state of the link. Held data passes when the link carries again, as
// after retransmissions of TCP.
func (l *link) set(state linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.state
	l.state = state
	if state == hangs && before != hangs {
		l.freed = make(chan struct{})
	}
	if before == hangs && state != hangs {
		close(l.freed)
	}
	if state == resets {
		for from, to := range l.pairs {
			_, _ = from.Close(), to.Close()
		}
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.set(resets)
}

func (l *link) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.carry(from)
	}
}

// carry joins a connection with one to the target.
func (l *link) carry(from net.Conn) {
	l.passable()
	to, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = from.Close()
		return
	}
	l.mu.Lock()
	refused := l.state == resets
	if !refused {
		l.pairs[from] = to
	}
	l.mu.Unlock()
	var both sync.WaitGroup
	if !refused {
		both.Go(func() { l.copy(to, from) })
		both.Go(func() { l.copy(from, to) })
		both.Wait()
	}
	_, _ = from.Close(), to.Close()
	l.mu.Lock()
	delete(l.pairs, from)
	l.mu.Unlock()
}

// copy copies one direction, and holds data back while the link hangs.
func (l *link) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.passable()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	// The other way ends with this one.
	_, _ = from.Close(), to.Close()
}

// passable waits while the link hangs.
func (l *link) passable() {
	l.mu.Lock()
	freed := l.freed
	l.mu.Unlock()
	<-freed
}
