package broker

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aibridge/aibridge/internal/gate"
)

// An acceptor takes the connections of a TCP listener in the turns of a
// reader: a connection costs no goroutine, no visit to Go's poller and no
// system calls but those that make it and have epoll watch it.
type acceptor struct {
	b      *Broker
	r      *reader
	door   *door
	closed chan struct{}

	mu      sync.Mutex // held while connections are taken
	fd      int        // -1 when closed
	place   int32      // in reader.acceptors
	watched bool
	inherit bool // connections are prepared as the listener is
	emptied bool // and those who came before it was have been taken
}

const (
	mostAccepts = 64 // in a turn, which has messages to carry as well
	acceptPause = 50 * time.Millisecond
)

// accept takes a listener over and takes its connections until it, the broker
// or the context is closed. It returns false when there are no readers or the
// descriptor can't be had; then the listener is as it was.
func (rs *readers) accept(ctx context.Context, b *Broker, d *door, tcp *net.TCPListener) bool {
	if len(rs.all) == 0 {
		return false
	}
	fd, err := duplicate(tcp)
	if err != nil {
		return false
	}
	a := &acceptor{b: b, r: rs.pick(), door: d, fd: fd, closed: make(chan struct{})}
	a.inherit = prepare(fd)
	a.r.mu.Lock()
	a.place = int32(len(a.r.acceptors))
	a.r.acceptors = append(a.r.acceptors, a)
	a.r.mu.Unlock()
	defer a.r.forget(a)
	defer a.Close()
	if !b.track(a) {
		_ = tcp.Close()
		return true
	}
	defer b.untrack(a)
	_ = tcp.Close() // the socket lives on in fd
	a.mu.Lock()
	a.watch()
	a.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-a.closed:
	}
	return true
}

// prepare sets what Linux hands on from a listener to the connections it makes
// from then on: no delay, and probes that find dead peers, as Go sets them. It
// reports whether all of it is set: of listeners with Multipath TCP, which Go's
// are, older kernels do not take the times of probes, of TCP connections they do.
func prepare(fd int) (all bool) {
	const probe, probes = 15, 9
	all = true
	for _, o := range [][3]int{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, probe},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, probe},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, probes},
	} {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil { // it works without
			all = false
		}
	}
	return all
}

// watch has epoll tell the reader of connections; mu is held.
func (a *acceptor) watch() {
	if a.fd < 0 || a.watched {
		return
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: firstAcceptor - a.place}
	if err := unix.EpollCtl(a.r.epfd, unix.EPOLL_CTL_ADD, a.fd, &event); err != nil { // running out of memory passes
		a.b.log.Warn("listening is put off", "listener", a.door.name, "error", err)
		a.watchLater()
		return
	}
	a.watched = true
}

// rest stops taking connections for a moment; mu is held.
func (a *acceptor) rest() {
	_ = unix.EpollCtl(a.r.epfd, unix.EPOLL_CTL_DEL, a.fd, nil)
	a.watched = false
	a.watchLater()
}

func (a *acceptor) watchLater() {
	time.AfterFunc(acceptPause, func() {
		a.mu.Lock()
		a.watch()
		a.mu.Unlock()
	})
}

// Close stops taking connections. When it returns no more are made.
func (a *acceptor) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd < 0 {
		return net.ErrClosed
	}
	err := unix.Close(a.fd) // leaves epoll as well
	a.fd = -1
	close(a.closed)
	return err
}

// take makes the connections that wait.
func (a *acceptor) take() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd < 0 {
		return
	}
	for range mostAccepts {
		fd, from, err := syscall.Accept4(a.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC) // unix.Accept4 asks the kernel what it just said
		switch {
		case err == nil:
			gate.Opened(fd)
			if !a.inherit || !a.emptied {
				prepare(fd)
			}
			a.welcome(fd, tcpAddr(from))
		case errors.Is(err, unix.EAGAIN):
			a.emptied = true
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		default: // running out of descriptors passes
			if !a.b.relieve(err) {
				a.b.log.Warn("accept failed", "listener", a.door.name, "error", err)
			}
			a.rest()
			return
		}
	}
}

// welcome deals connections out among the readers.
func (a *acceptor) welcome(fd int, from net.Addr) {
	b := a.b
	visit, ok := b.enter(from)
	if !ok {
		_ = unix.Close(fd)
		a.door.turnedAway.Add(1)
		return
	}
	c := b.newConn(a.door, from, visit)
	b.readers.pick().add(c, fd)
	visit.CutBy(c.abort)
}

func tcpAddr(from syscall.Sockaddr) net.Addr {
	switch from := from.(type) {
	case *syscall.SockaddrInet4:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(from.Addr), uint16(from.Port)))
	case *syscall.SockaddrInet6:
		addr := netip.AddrFrom16(from.Addr)
		if from.ZoneId != 0 {
			if i, err := net.InterfaceByIndex(int(from.ZoneId)); err == nil {
				addr = addr.WithZone(i.Name)
			}
		}
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(from.Port)))
	}
	return &net.TCPAddr{}
}

// forget lets go of an acceptor that is closed.
func (r *reader) forget(a *acceptor) {
	r.mu.Lock()
	r.acceptors[a.place] = nil
	r.mu.Unlock()
}
