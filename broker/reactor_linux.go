package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/gate"
)

// readers share the plain TCP connections of a broker among a few goroutines.
type readers struct {
	all  []*reader
	next atomic.Uint32
}

// A reader waits for many sockets with epoll and reads those that are ready
// in one turn.
type reader struct {
	b    *Broker
	epfd int
	wait wait
	bell int // an eventfd that ends the wait
	t    *turn
	buf  []byte // filled once per turn: outboxes refer to it until the turn ends
	used int
	raw  []byte // from sockets with a layer; nil until there is one

	events  []unix.EpollEvent
	ready   []readyConn
	callers []*acceptor // that have connections to take

	passed passed // to it by the turns of others

	mu        sync.Mutex
	slots     []*socket // by slot number
	free      []int32
	acceptors []*acceptor // by place
	done      chan struct{}
}

// A passed is a list of connections of a reader that others have something written to
// while the reader is in a turn, at the end of which it writes.
type passed struct {
	mu     sync.Mutex
	inTurn bool
	conns  []*conn
}

func (p *passed) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inTurn = true
}

// add reports whether there is a turn at the end of which a connection's outbox will be
// written.
func (p *passed) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inTurn {
		p.conns = append(p.conns, c)
	}
	return p.inTurn
}

// move moves what there is to a turn. With last the reader takes no more.
func (p *passed) move(t *turn, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.dirty = append(t.dirty, p.conns...)
	clear(p.conns)
	p.conns = p.conns[:0]
	p.inTurn = p.inTurn && !last
}

type readyConn struct {
	s    *socket
	mask uint32
}

const (
	readBuffer = 512 << 10 // of a reader
	leastRead  = 16 << 10  // room a socket is given
	mostEvents = 256
)

func (rs *readers) start(b *Broker, n int) error {
	if n < 0 {
		return nil
	}
	if n == 0 {
		n = max(1, processors()/2)
	}
	for range n {
		r, err := newReader(b, wait{crowded: crowded(b.options.Awaiting, n, processors), polling: newPolling(n, processors)})
		if err != nil {
			rs.stop()
			return fmt.Errorf("broker: %w", err)
		}
		gate.Opened(r.epfd)
		rs.all = append(rs.all, r)
		go r.run()
	}
	return nil
}

// crowded reports whether more goroutines wait for what readers bring than there are
// processors beside so many readers at that time.
func crowded(awaiting func() int, readers int, processors func() int) func() bool {
	if awaiting == nil {
		return nil
	}
	return func() bool {
		waiting := awaiting()
		return waiting > 0 && waiting > processors()-readers // mostly none waits, and nothing is asked
	}
}

func newReader(b *Broker, w wait) (*reader, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: theBell}); err != nil {
		_ = errors.Join(unix.Close(epfd), unix.Close(bell))
		return nil, fmt.Errorf("epoll: %w", err)
	}
	t := newTurn(b)
	t.rides = true
	w.epfd = epfd
	return &reader{
		b: b, epfd: epfd, wait: w, bell: bell, t: t,
		buf: make([]byte, readBuffer), events: make([]unix.EpollEvent, mostEvents), done: make(chan struct{}),
	}, nil
}

// Marks in the place of a slot number.
const (
	theBell       = -1
	firstAcceptor = -2 // and so on downwards
)

func (rs *readers) stop() {
	for _, r := range rs.all {
		r.stop()
	}
}

// pick chooses the readers in turn.
func (rs *readers) pick() *reader { return rs.all[rs.next.Add(1)%uint32(len(rs.all))] }

// duplicate yields another descriptor of a socket.
func duplicate(of syscall.Conn) (fd int, err error) {
	raw, err := of.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := raw.Control(func(u uintptr) { fd, err = unix.FcntlInt(u, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return -1, cerr
	}
	return fd, err
}

// add has the reader read a connection.
func (r *reader) add(c *conn, fd int) {
	s := &socket{c: c, r: r, fd: fd}
	c.transport = s
	c.b.addConn(c)
	r.place(s)
	c.mu.Lock()
	s.watch(unix.EPOLLIN | unix.EPOLLRDHUP)
	c.mu.Unlock()
}

// place gives the socket its slot.
func (r *reader) place(s *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		s.slot = r.free[n-1]
		r.free = r.free[:n-1]
		r.slots[s.slot] = s
	} else {
		s.slot = int32(len(r.slots))
		r.slots = append(r.slots, s)
	}
}

// stop ends the reader.
func (r *reader) stop() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(r.bell, one[:])
	<-r.done
	_, _ = unix.Close(r.epfd), unix.Close(r.bell)
}

// run takes turns until the reader is stopped.
func (r *reader) run() {
	defer close(r.done)
	r.wait.begin()
	defer r.wait.end()
	for {
		n, err := r.wait.events(r.events, r.patience())
		if err != nil && err != unix.EINTR {
			r.b.log.Error("a reader ends", "error", err)
			return
		}
		for _, e := range r.events[:max(n, 0)] {
			if e.Fd == theBell {
				return
			}
		}
		if n > 0 || len(r.t.riders) > 0 {
			r.turn(max(n, 0))
		}
	}
}

// patience is the time that the reader waits for something to read, in milliseconds.
func (r *reader) patience() int {
	if len(r.t.riders) > 0 {
		return int(rideTime.Milliseconds())
	}
	return -1
}

// turn serves n ready sockets.
func (r *reader) turn(n int) {
	r.sort(r.events[:n])
	r.t.begin().idle = r.wait.idle
	r.passed.begin()
	r.b.flusher.enter(r.t.now)
	defer r.b.flusher.leave()
	for _, e := range r.ready {
		if e.mask&unix.EPOLLOUT != 0 {
			r.write(e.s)
		}
		if e.mask&^unix.EPOLLOUT != 0 {
			r.read(e.s)
		}
	}
	clear(r.ready)
	r.end()
	if r.passed.move(r.t, true); len(r.t.dirty) > 0 {
		r.t.end()
	}
	for _, a := range r.callers { // after what carries messages
		a.take()
	}
	clear(r.callers)
}

// sort finds out whom events are about.
func (r *reader) sort(events []unix.EpollEvent) {
	r.ready, r.callers = r.ready[:0], r.callers[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range events {
		if ev.Fd <= firstAcceptor {
			if a := r.acceptors[firstAcceptor-ev.Fd]; a != nil {
				r.callers = append(r.callers, a)
			}
		} else if s := r.slots[ev.Fd]; s != nil && s.fd == int(ev.Pad) {
			r.ready = append(r.ready, readyConn{s, ev.Events})
		}
	}
}

// end ends the turn: after it nothing refers to the buffer.
func (r *reader) end() {
	r.t.settle()
	r.b.flusher.help(r.t)
	r.passed.move(r.t, false)
	r.t.dismount()
	r.t.end()
	r.used = 0
}

func (r *reader) write(s *socket) {
	c := s.c
	if c.writable(r.t.now) {
		c.mu.Lock()
		s.watch(s.mask &^ unix.EPOLLOUT)
		session := c.session
		c.mu.Unlock()
		if session != nil && session.behind.Load() {
			r.t.pump(session)
		}
	}
}

// read reads one socket and takes its packets.
func (r *reader) read(s *socket) {
	c := s.c
	if !s.readable() {
		return
	}
	if len(c.in) > mostRead {
		r.readLarge(s)
		return
	}
	if len(r.buf)-r.used < len(c.in)+s.leastRead() {
		r.end()
	}
	b := r.buf[r.used:min(len(r.buf), r.used+len(c.in)+mostRead)]
	have := copy(b, c.in)
	n, ok := r.fill(s, b[have:])
	if !ok {
		return
	}
	recycle(c.in)
	c.in = nil
	b = b[:have+n]
	rest := r.t.consume(c, b)
	r.used += len(b) - len(rest)
	r.keep(s, rest)
}

// fill reads into b. It returns false when there is nothing to take. The lock
// keeps others from closing the descriptor meanwhile.
func (r *reader) fill(s *socket, b []byte) (n int, ok bool) {
	c := s.c
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return 0, false
	}
	var err error
	if s.layer == nil {
		n, err = unix.Read(s.fd, b)
	} else {
		n, err = r.open(s, b)
	}
	c.mu.Unlock()
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, false
	case err != nil, n == 0:
		r.t.lost(c)
		return 0, false
	}
	c.heard(r.t.now, n)
	return n, true
}

// readLarge goes on with a packet that does not fit a read. Its buffer grows
// as the bytes come, not as the header promises.
func (r *reader) readLarge(s *socket) {
	c := s.c
	if cap(c.in)-len(c.in) < s.leastRead() {
		h, size, err := packet.ParseHeader(c.in)
		want := 2 * cap(c.in)
		if err == nil && size > 0 {
			want = min(want, size+h.Remaining)
		}
		grown := make([]byte, len(c.in), max(want, len(c.in)+s.leastRead()))
		copy(grown, c.in)
		c.in = grown
	}
	n, ok := r.fill(s, c.in[len(c.in):cap(c.in)])
	if !ok {
		return
	}
	b := c.in[:len(c.in)+n]
	c.in = b
	rest := r.t.consume(c, b)
	if len(rest) == len(b) && c.job == nil {
		return
	}
	c.in = nil
	r.keep(s, rest)
}

// keep puts the start of an incomplete packet aside, and has a job done.
func (r *reader) keep(s *socket, rest []byte) {
	c := s.c
	if len(rest) > 0 {
		c.in = append(chunk(len(rest)), rest...)
	}
	if c.job == nil {
		return
	}
	s.pause()
	r.b.serving.Go(func() { r.runJob(s) })
}

// runJob does work that may block and then goes on with the packets read before.
func (r *reader) runJob(s *socket) {
	c := s.c
	for c.job != nil {
		job := c.job
		c.job = nil
		job()
		t := r.b.getTurn().begin()
		rest := t.consume(c, c.in)
		r.b.putTurn(t)
		c.in = append([]byte(nil), rest...)
	}
	if len(c.in) == 0 {
		c.in = nil
	}
	s.resume()
}
