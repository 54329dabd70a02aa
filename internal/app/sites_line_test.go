package app_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// A roughLine is a TCP connection to an address that delays what it carries, drops
// connections in the middle of packets, and delivers some of what was sent over a
// dropped one when the next one stands: later than what was sent after it.
type roughLine struct {
	address string // to dial
	target  string
	piece   int // bytes that are read at once
	carries int // bytes that a connection carries at least while the line is rough

	mu    sync.Mutex
	rough bool
	down  bool
	conns map[*carried]bool
	cuts  int
}

// A carried is one connection over the line.
type carried struct {
	line      *roughLine
	near, far net.Conn
	ended     chan struct{}
	once      sync.Once
}

// newRoughLine listens until the test ends. Until it is told otherwise it only
// carries.
func newRoughLine(t *testing.T, target string) *roughLine {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &roughLine{address: l.Addr().String(), target: target, piece: 700, carries: 6000, conns: map[*carried]bool{}}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { n.carry(near) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.rests(true)
		carrying.Wait()
	})
	return n
}

func (n *roughLine) carry(near net.Conn) {
	far, err := net.Dial("tcp", n.target)
	if err != nil {
		_ = near.Close()
		return
	}
	c := &carried{line: n, near: near, far: far, ended: make(chan struct{})}
	n.mu.Lock()
	down, rough := n.down, n.rough
	n.conns[c] = true
	n.mu.Unlock()
	if down {
		c.cut()
	}
	left := -1
	if rough {
		left = n.carries + rand.IntN(n.carries)
	}
	var both sync.WaitGroup
	both.Go(func() { c.pass(far, near, left) })
	both.Go(func() { c.pass(near, far, left) })
	<-c.ended
	_ = near.Close()
	both.Wait()
	_ = far.Close()
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

// pass carries bytes until the line is cut, or after so many, -1 for any. What it has
// of the last ones then arrives late, if the other end is still there.
func (c *carried) pass(to, from net.Conn, left int) {
	defer c.cut()
	buffer := make([]byte, c.line.piece)
	for {
		size, err := from.Read(buffer)
		if left >= 0 && size > 0 {
			<-time.After(rand.N(3 * time.Millisecond)) // the line's delay: no wait for anything
			if left -= size; left <= 0 {
				c.cut()
				<-time.After(rand.N(30 * time.Millisecond))
				_, _ = to.Write(buffer[:size/2])
				return
			}
		}
		if size > 0 {
			if _, err := to.Write(buffer[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut ends a connection for the near end at once; the far end may get what is under
// way.
func (c *carried) cut() {
	c.once.Do(func() {
		c.line.mu.Lock()
		c.line.cuts++
		c.line.mu.Unlock()
		_ = c.near.Close()
		_ = c.far.SetReadDeadline(time.Now())
		close(c.ended)
	})
}

// rests has the line lead nowhere until it is told otherwise.
func (n *roughLine) rests(down bool) {
	n.mu.Lock()
	n.down = down
	var all []*carried
	for c := range n.conns {
		all = append(all, c)
	}
	n.mu.Unlock()
	for _, c := range all {
		if down {
			c.cut()
		}
	}
}

// isRough has connections from now on delayed and dropped, and drops those that there
// are.
func (n *roughLine) isRough(rough bool) {
	n.mu.Lock()
	n.rough = rough
	n.mu.Unlock()
	n.rests(true)
	n.rests(false)
}

// wasCut counts the connections that have ended.
func (n *roughLine) wasCut() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts
}
