package direct

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var secret = []byte("that all bridges of these tests have")

// A network connects those who listen at it within the process.
type network struct {
	mu    sync.Mutex
	at    map[string]*ear
	conns []net.Conn
}

func newNetwork() *network { return &network{at: make(map[string]*ear)} }

// An ear listens at an address.
type ear struct {
	comes  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (n *network) listen(address string) *ear {
	e := &ear{comes: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	n.at[address] = e
	n.mu.Unlock()
	return e
}

func (e *ear) Accept() (net.Conn, error) {
	select {
	case c := <-e.comes:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

func (e *ear) Close() error   { e.once.Do(func() { close(e.closed) }); return nil }
func (e *ear) Addr() net.Addr { return &net.UnixAddr{Name: "ear"} }

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	e := n.at[address]
	n.mu.Unlock()
	if e == nil {
		return nil, errors.New("nobody is there")
	}
	here, there := pipe()
	select {
	case e.comes <- there:
		n.mu.Lock()
		n.conns = append(n.conns, here)
		n.mu.Unlock()
		return here, nil
	case <-e.closed:
	case <-ctx.Done():
	}
	_, _ = here.Close(), there.Close()
	return nil, errors.New("nobody takes it")
}

// pipe is a connection that takes some bytes before they are read, as a socket does.
func pipe() (here, there net.Conn) {
	here, near := net.Pipe()
	far, there := net.Pipe()
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	go carry(near, far)
	go carry(far, near)
	return here, there
}

// snap breaks all connections.
func (n *network) snap() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// A bridge is one end of lines, and what came to it.
type bridge struct {
	*Switch
	self    Peer
	mu      sync.Mutex
	came    []string // over lines
	other   []string // went by the fallback
	changes int
}

// Send implements the fallback.
func (b *bridge) fallback(to string, frame []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.other = append(b.other, to+": "+string(frame))
	return nil
}

type sends func(to string, frame []byte) error

func (s sends) Send(to string, frame []byte) error { return s(to, frame) }

// begin has a bridge listen at the address that is its id.
func (n *network) begin(t *testing.T, id string, epoch uint64, secret []byte) *bridge {
	t.Helper()
	b := &bridge{self: Peer{Node{id, epoch}, id}}
	var err error
	b.Switch, err = New(Options{
		Self: b.self.Node, Secret: secret, Fallback: sends(b.fallback), Dial: n.dial,
		Changed: func(string) { b.mu.Lock(); b.changes++; b.mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Start(n.listen(id), func(from string, frame []byte) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.came = append(b.came, from+": "+string(frame))
	})
	return b
}

// know has bridges want lines with each other.
func know(all ...*bridge) {
	var peers []Peer
	for _, b := range all {
		peers = append(peers, b.self)
	}
	for _, b := range all {
		b.Reconcile(peers)
	}
}

func (b *bridge) with(id string) Status {
	for _, s := range b.Status() {
		if s.Bridge == id {
			return s
		}
	}
	return Status{}
}

// took is what came over lines, and what went by the fallback, since the last call.
func (b *bridge) took() (came, other []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	came, other, b.came, b.other = b.came, b.other, nil, nil
	return came, other
}
