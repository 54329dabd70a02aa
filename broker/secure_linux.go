package broker

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/aibridge/aibridge/internal/gate"
)

// leastLayered is the room for reading a socket with a layer: the bytes that the
// layer may have kept, and more.
const leastLayered = 3 * mostSealed

func (s *socket) leastRead() int {
	if s.layer != nil {
		return leastLayered
	}
	return leastRead
}

// adopt has a reader take over a connection that had a goroutine until its layer
// was ready. It returns false if that is not possible, or not worth it any more; then
// nothing has changed.
func (rs *readers) adopt(c *conn, nc net.Conn, l layer) bool {
	tcp := underneath(nc)
	if tcp == nil || len(rs.all) == 0 {
		return false
	}
	fd, err := duplicate(tcp)
	if err != nil {
		return false
	}
	gate.Opened(fd)
	r := rs.pick()
	s := &socket{c: c, r: r, fd: fd, layer: l}
	c.mu.Lock()
	if gone := c.gone; gone || c.closed {
		c.mu.Unlock()
		_ = unix.Close(fd)
		return gone
	}
	_ = tcp.Close() // the socket lives on in fd
	l.begin()
	r.place(s)
	c.transport = s
	c.mu.Unlock()
	r.first(s)
	return true
}

// underneath returns the TCP socket under a stack of connections, found by their
// NetConn methods, or nil. None of the stack may hold bytes that it has read ahead.
func underneath(nc net.Conn) *net.TCPConn {
	for {
		switch c := nc.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

// first takes the bytes that the layer has read beyond the handshake, of which epoll
// does not know, and has epoll watch the socket.
func (r *reader) first(s *socket) {
	c := s.c
	b := chunk(largeChunk)[:largeChunk]
	defer recycle(b)
	for {
		c.mu.Lock()
		n, err := s.layer.open(b, nil)
		c.mu.Unlock()
		t := r.b.getTurn().begin()
		if n > 0 {
			c.heard(t.now, n)
			c.in = append(c.in, b[:n]...)
			c.in = append([]byte(nil), t.consume(c, c.in)...)
		}
		if err != nil {
			t.lost(c)
		}
		r.b.putTurn(t)
		if n < len(b) || err != nil {
			break
		}
	}
	r.runJob(s)
}

// open reads the socket through its layer into b. Without bytes, a nil error means
// that the peer has closed its side.
func (r *reader) open(s *socket, b []byte) (n int, err error) {
	if r.raw == nil {
		r.raw = make([]byte, mostRead)
	}
	n, err = unix.Read(s.fd, r.raw[:min(len(r.raw), len(b)-mostKept)])
	if err != nil || n == 0 {
		return n, err
	}
	n, err = s.layer.open(b, r.raw[:n])
	switch {
	case err != nil && n > 0:
		err = unix.Shutdown(s.fd, unix.SHUT_RD) // the end is read next
	case err == nil && n == 0:
		err = unix.EAGAIN
	}
	if s.held() > 0 && !s.c.out.blocked { // the layer answers its like
		if s.push() != nil || s.held() > 0 {
			s.c.block(r.t.now)
		}
	}
	return n, err
}

func (s *socket) held() int {
	if s.layer == nil {
		return 0
	}
	return len(*s.layer.unsent())
}

// writeSealed writes through the layer: first the bytes sealed before, then as many
// more as the socket takes.
func (s *socket) writeSealed(segs []seg, off int) (n int, err error) {
	for {
		if err := s.push(); err != nil || s.held() > 0 {
			return n, err
		}
		if len(segs) == 0 {
			return n, nil
		}
		k := 0
		if len(segs) == 1 {
			b := segs[0].b[off:]
			b = b[:min(len(b), mostSealed)]
			k, err = len(b), s.layer.seal(b)
		} else {
			k, err = s.sealMany(segs, off)
		}
		if err != nil {
			return n, err
		}
		n += k
		for off += k; len(segs) > 0 && off >= len(segs[0].b); segs = segs[1:] {
			off -= len(segs[0].b)
		}
	}
}

// sealMany seals the beginning of several segments as one.
func (s *socket) sealMany(segs []seg, off int) (int, error) {
	b := chunk(largeChunk)[:0]
	defer recycle(b)
	for _, g := range segs {
		part := g.b[off:]
		off = 0
		part = part[:min(len(part), mostSealed-len(b))]
		b = append(b, part...)
		if len(b) == mostSealed {
			break
		}
	}
	return len(b), s.layer.seal(b)
}

// push writes sealed bytes, as far as the socket takes them.
func (s *socket) push() error {
	out := s.layer.unsent()
	for len(*out) > 0 {
		n, err := unix.Write(s.fd, *out)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return err
		case n == len(*out):
			recycle(*out)
			*out = nil
		default:
			*out = (*out)[:copy(*out, (*out)[n:])]
		}
	}
	return nil
}

// bye ends the layer, if the socket has taken everything before.
func (s *socket) bye() {
	if s.layer != nil && s.held() == 0 {
		s.layer.bye()
		_ = s.push()
	}
}
