package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A loop is one thread with the input and output of many connections. A connection,
// including its role, belongs to its loop alone.
type loop struct {
	poll  int // epoll
	alarm int // eventfd that ends a wait early

	start   time.Time // origin of now
	now     int64     // nanoseconds, taken once for each read
	conns   []*conn
	scratch []byte
	raw     []byte // from sockets with a layer
	stop    atomic.Bool

	// turn, if set, is called before each wait. It returns the longest wait, 0 for
	// none, or a negative value for no limit.
	turn func() time.Duration

	ready    atomic.Int64 // connections whose handshake is done
	lost     atomic.Int64 // connections that ended before they were to
	firstErr atomic.Pointer[error]
}

// A role is the behaviour of a connection once it is ready.
type role interface {
	// packet handles one received packet. Bytes that it appends to c.out are written
	// after all packets of the read.
	packet(c *conn, first byte, body []byte)
}

// A framing takes the first packet from what was received: its first byte, its body, and
// its size with everything, 0 if it has not come whole.
type framing func(in []byte) (first byte, body []byte, size int, err error)

// A conn is one connection: of MQTT, or of HTTP with an answer as its packet.
type conn struct {
	loop    *loop
	index   int // in loop.conns
	role    role
	framing framing
	fd      int
	version byte

	subscribes     bool // it has sent a SUBSCRIBE
	receiveMaximum int  // number of unacknowledged messages that the broker accepts
	stage          stage

	partial []byte // beginning of an incomplete packet
	out     []byte // encoded, not yet written
	layer   layer  // nil where the socket carries packets
	unsent  []byte // the layer's output that the socket has not taken
	blocked bool   // the socket is full
	lastID  uint16
}

type stage uint8

const (
	connecting stage = iota
	subscribing
	established
	closed
)

const (
	largestPacket = 1 << 20   // more than any broker has reason to send here
	readSize      = 128 << 10 // of one read, which should stay in the cache
)

func newLoop(start time.Time) (*loop, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	alarm, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(poll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	l := &loop{poll: poll, alarm: alarm, start: start, scratch: make([]byte, largestPacket+readSize), raw: make([]byte, readSize)}
	if err := l.watch(alarm, -1, unix.EPOLLIN, unix.EPOLL_CTL_ADD); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// close closes everything, without goodbyes. The loop must not be running.
func (l *loop) close() {
	for _, c := range l.conns {
		if c.stage != closed {
			c.close()
		}
	}
	_ = unix.Close(l.alarm)
	_ = unix.Close(l.poll)
}

func (l *loop) watch(fd, index int, events uint32, op int) error {
	if err := unix.EpollCtl(l.poll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(index)}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// A dialling holds the parameters of a new connection.
type dialling struct {
	address        netip.AddrPort
	over           Over
	version        byte
	clientID       string
	filter         string // to subscribe, "" for none
	qos            byte   // of the subscription
	receiveMaximum uint16 // to announce, 0 for none
	silent         bool   // it will send nothing else
}

// dial connects and sends CONNECT with SUBSCRIBE in one write, as MQTT allows; the answers
// are taken in the loop.
func (l *loop) dial(d dialling, r role) (*conn, error) {
	c, err := l.connect(d, r, mqttPacket)
	if err != nil {
		return nil, err
	}
	c.out = append(c.out, connectPacket(d.version, d.clientID, d.receiveMaximum)...)
	if c.subscribes = d.filter != ""; c.subscribes {
		c.out = append(c.out, subscribePacket(d.version, d.filter, d.qos)...)
	}
	c.flush()
	return c, nil
}

// dialWeb connects to a server of HTTP/1.1.
func (l *loop) dialWeb(address netip.AddrPort, r role) (*conn, error) {
	c, err := l.connect(dialling{address: address}, r, httpAnswer)
	if err != nil {
		return nil, err
	}
	c.establish()
	return c, nil
}

// connect opens a connection, with as few system calls as there can be: where the time
// that brokers take for connections is measured, the load generator must not be the limit.
func (l *loop) connect(d dialling, r role, f framing) (*conn, error) {
	kind := unix.SOCK_STREAM | unix.SOCK_CLOEXEC
	if d.over == OverTCP {
		kind |= unix.SOCK_NONBLOCK // other transports shake hands first
	}
	fd, err := unix.Socket(unix.AF_INET, kind, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	address := &unix.SockaddrInet4{Port: int(d.address.Port()), Addr: d.address.Addr().As4()}
	if err := unix.Connect(fd, address); err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", d.address, err)
	}
	if !d.silent {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	layer, err := layered(d.over, fd)
	if err == nil && d.over != OverTCP {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	c := &conn{loop: l, index: len(l.conns), role: r, framing: f, fd: fd, layer: layer, version: d.version, receiveMaximum: 65535}
	l.conns = append(l.conns, c)
	return c, l.watch(fd, c.index, unix.EPOLLIN, unix.EPOLL_CTL_ADD)
}

// run serves the connections until stop is set.
func (l *loop) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // pacing wants short sleeps to be short
	var events [256]unix.EpollEvent
	for !l.stop.Load() {
		wait := time.Duration(-1)
		if l.turn != nil {
			wait = l.turn()
		}
		for _, e := range events[:l.wait(events[:], wait)] {
			if e.Fd < 0 {
				var word [8]byte
				_, _ = unix.Read(l.alarm, word[:])
				continue
			}
			c := l.conns[e.Fd]
			if e.Events&unix.EPOLLOUT != 0 {
				c.unblock()
			}
			if e.Events&^unix.EPOLLOUT != 0 && c.stage != closed {
				c.read()
			}
		}
	}
}

// wait is epoll_wait with a timeout finer than a millisecond.
func (l *loop) wait(events []unix.EpollEvent, timeout time.Duration) int {
	const longest = 50 * time.Millisecond // to look at stop
	if timeout < 0 || timeout > longest {
		timeout = longest
	}
	if timeout%time.Millisecond != 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(l.poll), Events: unix.POLLIN}}, &ts, nil)
		timeout = 0
	}
	n, err := unix.EpollWait(l.poll, events, int(timeout/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		l.fail(fmt.Errorf("epoll: %w", err))
		l.stop.Store(true)
	}
	return max(n, 0)
}

// wake ends the wait of the loop. Any goroutine may call it.
func (l *loop) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(l.alarm, one[:])
}

func (l *loop) clock() int64 {
	l.now = int64(time.Since(l.start))
	return l.now
}

// fail keeps the first error of the loop.
func (l *loop) fail(err error) { l.firstErr.CompareAndSwap(nil, &err) }

// read reads from the socket once, and handles the whole packets.
func (c *conn) read() {
	l := c.loop
	have := copy(l.scratch, c.partial)
	in := l.scratch[have:min(have+readSize, len(l.scratch))]
	if c.layer != nil {
		in = l.raw
	}
	n, err := unix.Read(c.fd, in)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil:
		c.end(fmt.Errorf("read: %w", err))
		return
	case n == 0:
		c.end(errors.New("the broker closed the connection"))
		return
	}
	l.clock()
	rest := l.scratch[:have+n]
	if c.layer != nil {
		if rest, err = c.layer.open(l.scratch[:have], l.raw[:n]); err != nil {
			c.end(fmt.Errorf("read: %w", err))
			return
		}
	}
	for len(rest) > 0 {
		first, body, size, err := c.framing(rest)
		if err != nil {
			c.end(err)
			return
		}
		if size == 0 {
			break
		}
		c.take(first, body)
		if c.stage == closed {
			return
		}
		rest = rest[size:]
	}
	c.partial = append(c.partial[:0], rest...)
	c.flush()
}

// mqttPacket is the [framing] of MQTT.
func mqttPacket(in []byte) (first byte, body []byte, size int, err error) {
	length, digits := readVarint(in[1:])
	size = 1 + digits + length
	switch {
	case digits < 0 || length > largestPacket:
		return 0, nil, 0, errors.New("the broker sent a malformed length")
	case digits == 0 || len(in) < size:
		return 0, nil, 0, nil
	}
	return in[0], in[1+digits : size], size, nil
}

// take handles the handshake and hands the rest to the role.
func (c *conn) take(first byte, body []byte) {
	switch {
	case c.stage == established && first != packetDisconn:
		if first != packetPingresp {
			c.role.packet(c, first, body)
		}
	case c.stage == connecting && first == packetConnack && len(body) >= 2 && body[1] == 0:
		if c.version == version5 {
			c.receiveMaximum = receiveMaximumOf(body)
		}
		if !c.subscribes {
			c.establish()
			return
		}
		c.stage = subscribing
	case c.stage == subscribing && first == packetSuback && len(body) >= 3 && body[len(body)-1] < 0x80:
		c.establish()
	default:
		c.end(fmt.Errorf("the broker sent % x % x", first, body[:min(len(body), 16)]))
	}
}

func (c *conn) establish() {
	c.stage = established
	c.loop.ready.Add(1)
}

// end closes the connection because of an error.
func (c *conn) end(err error) {
	c.close()
	c.loop.lost.Add(1)
	c.loop.fail(err)
}

// close closes the socket without TIME_WAIT, of which thousands would remain.
func (c *conn) close() {
	c.stage = closed
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	_ = unix.Close(c.fd)
}

// nextID is the packet id for the next publish of QoS 1 or 2. With far fewer
// in flight than there are ids, none is taken twice.
func (c *conn) nextID() uint16 {
	if c.lastID++; c.lastID == 0 {
		c.lastID = 1
	}
	return c.lastID
}

// flush writes as much of the queue as the socket accepts.
func (c *conn) flush() {
	if c.blocked || c.stage == closed {
		return
	}
	if c.layer != nil && len(c.out) > 0 {
		var err error
		if c.unsent, err = c.layer.seal(c.unsent, c.out); err != nil {
			c.end(fmt.Errorf("write: %w", err))
			return
		}
		c.out = c.out[:0]
	}
	out := &c.out
	if c.layer != nil {
		out = &c.unsent
	}
	if len(*out) == 0 {
		return
	}
	n, err := unix.Write(c.fd, *out)
	if err != nil && err != unix.EAGAIN && err != unix.EINTR {
		c.end(fmt.Errorf("write: %w", err))
		return
	}
	if n = max(n, 0); n == len(*out) {
		*out = (*out)[:0]
		return
	}
	*out = (*out)[:copy(*out, (*out)[n:])]
	c.blocked = true
	c.await(unix.EPOLLIN | unix.EPOLLOUT)
}

func (c *conn) unblock() {
	c.blocked = false
	c.flush()
	if !c.blocked && c.stage != closed {
		c.await(unix.EPOLLIN)
	}
}

func (c *conn) await(events uint32) {
	if err := c.loop.watch(c.fd, c.index, events, unix.EPOLL_CTL_MOD); err != nil {
		c.end(err)
	}
}
