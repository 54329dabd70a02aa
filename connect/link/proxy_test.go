package link

import (
	"net"
	"sync"
)

// A line is a TCP connection to an address that breaks when it is told to.
type line struct {
	address string // to dial
	target  func() string

	mu    sync.Mutex
	conns []net.Conn
	after int // bytes in either direction after which the next connection breaks; 0 never
	down  bool
}

// newLine listens until the test ends.
func newLine(t tester, target string) *line {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	n := &line{address: l.Addr().String(), target: func() string { return target }}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { n.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.cut()
		carrying.Wait()
	})
	return n
}

func (n *line) carry(near net.Conn) {
	far, err := net.Dial("tcp", n.target())
	if err != nil {
		_ = near.Close()
		return
	}
	n.mu.Lock()
	left := n.after
	n.after = 0
	if n.down {
		n.mu.Unlock()
		_, _ = near.Close(), far.Close()
		return
	}
	n.conns = append(n.conns, near, far)
	n.mu.Unlock()
	if left == 0 {
		join(near, far)
		return
	}
	join(&brittle{Conn: near, left: left}, far)
}

// brittle breaks after so many bytes, wherever in a packet that is.
type brittle struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (b *brittle) spend(p []byte) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(p), b.left)
	b.left -= n
	return p[:n], b.left == 0
}

func (b *brittle) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	some, over := b.spend(p[:n])
	if over {
		_ = b.Close()
	}
	return len(some), err
}

func (b *brittle) Write(p []byte) (int, error) {
	some, over := b.spend(p)
	n, err := b.Conn.Write(some)
	if over {
		_ = b.Close()
		return n, net.ErrClosed
	}
	return n, err
}

// cut breaks all connections.
func (n *line) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// breaksAfter has the next connection break after so many bytes.
func (n *line) breaksAfter(bytes int) {
	n.mu.Lock()
	n.after = bytes
	n.mu.Unlock()
	n.cut()
}

// rests has the line lead nowhere until it is told otherwise.
func (n *line) rests(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.cut()
	}
}
