package broker

import (
	"net"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// A stream is a connection with a goroutine that reads it, and another one
// while there is something to write. It serves whatever is a net.Conn and not a
// reader's.
type stream struct {
	c       *conn
	nc      net.Conn
	writing bool // guarded by conn.mu, as is sending
	sending bool // the writer has something in hand
}

func newStream(c *conn, nc net.Conn) *stream { return &stream{c: c, nc: nc} }

// write takes nothing: everything goes the way of a full socket.
func (s *stream) write([]seg, int) (int, error) { return 0, nil }

func (s *stream) held() int { return 0 }

// passOn says no: a stream has no turns that others wait for.
func (s *stream) passOn(*turn) bool { return false }

// full reports whether the writer is at work, and not about to begin.
func (s *stream) full() bool { return s.sending }

func (s *stream) await() {
	if !s.writing {
		s.writing = true
		s.c.b.serving.Go(s.drain)
	}
}

// drain writes until the outbox is empty.
func (s *stream) drain() {
	c := s.c
	for {
		c.mu.Lock()
		if s.sending = !c.gone && len(c.out.segs) > 0; !s.sending {
			break
		}
		segs := c.out.segs
		c.out.segs = nil
		c.out.reset()
		c.since = c.b.clock.Steady()
		c.mu.Unlock()
		(*c.b.beforeWrite.Load())()
		if !s.send(segs) {
			_ = s.nc.Close() // the reader sees it
			return
		}
	}
	s.writing = false
	c.out.blocked = false
	if c.closed {
		c.shutLocked(c.b.clock.Steady())
	}
	session := c.session
	c.mu.Unlock()
	if session != nil && session.behind.Load() {
		t := c.b.getTurn().begin()
		t.pump(session)
		c.b.putTurn(t)
	}
}

func (s *stream) send(segs []seg) bool {
	if err := s.nc.SetWriteDeadline(time.Now().Add(s.c.b.options.Limits.WriteTimeout)); err != nil {
		return false
	}
	for _, g := range segs {
		n, err := s.nc.Write(g.b)
		s.c.door.bytesOut.Add(uint64(n))
		if g.own {
			recycle(g.b)
		}
		if err != nil {
			return false
		}
	}
	return true
}

// shut reads on, as the transport's contract has it: a socket that is closed while
// something lies in it unread resets the connection, and the peer may lose what it was
// sent last.
func (s *stream) shut() {
	if s.writing {
		return
	}
	s.c.b.serving.Go(func() {
		if !closeWrite(s.nc) {
			_ = s.nc.Close() // the reader sees it
		}
	})
}

// closeWrite has each layer of a connection tell the peer that nothing more comes, the
// uppermost first. It reports false if none of them can.
func closeWrite(nc net.Conn) (told bool) {
	_ = nc.SetWriteDeadline(time.Now().Add(closePatience))
	for {
		if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			told = true
		}
		upper, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return told
		}
		nc = upper.NetConn()
	}
}

// close must not wait for a peer that does not read.
func (s *stream) close() { s.c.b.serving.Go(func() { _ = s.nc.Close() }) }

func (s *stream) pause()  {}
func (s *stream) resume() {}

const (
	streamBuffer = 4 << 10
	mostRead     = 64 << 10
)

// read reads until the connection ends.
func (s *stream) read() {
	c := s.c
	buf, have := make([]byte, streamBuffer), 0
	for {
		n, err := s.nc.Read(buf[have:])
		if n > 0 {
			c.heard(c.b.clock.Steady(), n)
			have = s.turn(buf, have+n)
			buf = fit(buf, have)
		}
		if err != nil {
			t := c.b.getTurn().begin()
			t.lost(c)
			c.b.putTurn(t)
			return
		}
	}
}

// turn takes the packets in buf and moves the rest to its start.
func (s *stream) turn(buf []byte, have int) int {
	c := s.c
	rest := buf[:have]
	for {
		t := c.b.getTurn().begin()
		c.b.flusher.enter(t.now)
		rest = t.consume(c, rest)
		t.settle()
		c.b.flusher.help(t)
		c.b.putTurn(t)
		c.b.flusher.leave()
		if c.job == nil {
			return copy(buf, rest)
		}
		job := c.job
		c.job = nil
		job()
	}
}

// fit grows the buffer for a packet that does not fit and shrinks it after.
func fit(buf []byte, have int) []byte {
	size := streamBuffer
	if have > 0 {
		h, n, err := packet.ParseHeader(buf[:have])
		if err == nil && n > 0 {
			size = max(size, min(n+h.Remaining, 2*max(have, mostRead)))
		}
	}
	if size <= len(buf) && (len(buf) == streamBuffer || have > 0 || size == len(buf)) {
		if have < len(buf) {
			return buf
		}
		size = 2 * len(buf)
	}
	fresh := make([]byte, size)
	copy(fresh, buf[:have])
	return fresh
}

// aSign is the number of bytes of an incomplete packet that are a sign of life,
// as a packet is: a large one may come slowly, but not byte by byte.
const aSign = 1000

// heard notes that n bytes came.
func (c *conn) heard(now int64, n int) {
	c.door.bytesIn.Add(uint64(n))
	if c.partial += n; c.partial >= aSign {
		c.alive(now)
	}
}

// alive notes a sign of life.
func (c *conn) alive(now int64) {
	c.partial = 0
	c.lastRead.Store(now)
}
