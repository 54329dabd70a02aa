package broker

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket is the transport of a connection that a reader reads.
type socket struct {
	c      *conn
	r      *reader
	fd     int
	slot   int32
	mask   uint32 // what epoll waits for, 0 while paused; guarded by conn.mu
	paused bool   // guarded by conn.mu
	layer  layer  // nil if the socket carries bare packets
}

// readable reports whether the reader may look at the connection: not while a
// job does.
func (s *socket) readable() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.paused {
		s.watch(0) // or it would be reported again and again; resume undoes it
	}
	return !s.paused && !s.c.gone
}

// watch has epoll wait for what mask says; conn.mu is held.
func (s *socket) watch(mask uint32) {
	if s.c.gone || mask == s.mask {
		return
	}
	op := unix.EPOLL_CTL_MOD
	switch {
	case s.mask == 0:
		op = unix.EPOLL_CTL_ADD
	case mask == 0:
		op = unix.EPOLL_CTL_DEL
	}
	s.mask = mask
	ev := unix.EpollEvent{Events: mask, Fd: s.slot, Pad: int32(s.fd)}
	_ = unix.EpollCtl(s.r.epfd, op, s.fd, &ev) // can fail only on misuse
}

// passOn implements [transport].
func (s *socket) passOn(t *turn) bool { return s.r.t != t && s.r.passed.add(s.c) }

func (s *socket) await() { s.watch(s.mask | unix.EPOLLOUT) }

func (s *socket) full() bool { return true }

func (s *socket) shut() {
	s.bye()
	_ = unix.Shutdown(s.fd, unix.SHUT_WR)
}

func (s *socket) close() {
	s.bye()
	s.r.mu.Lock()
	s.r.slots[s.slot] = nil
	s.r.free = append(s.r.free, s.slot)
	s.r.mu.Unlock()
	_ = unix.Close(s.fd) // leaves epoll as well
	s.fd = -1            // its number may soon be another connection's
}

// pause stops reading while a job runs elsewhere. Epoll is told only when
// something comes meanwhile, see readable: mostly the client waits for the job.
func (s *socket) pause() {
	s.c.mu.Lock()
	s.paused = true
	s.c.mu.Unlock()
}

func (s *socket) resume() {
	s.c.mu.Lock()
	s.paused = false
	mask := s.mask | unix.EPOLLIN | unix.EPOLLRDHUP
	if s.c.out.blocked {
		mask |= unix.EPOLLOUT
	}
	s.watch(mask)
	s.c.mu.Unlock()
}

// write writes the segments with one system call.
func (s *socket) write(segs []seg, off int) (n int, err error) {
	if s.layer != nil {
		return s.writeSealed(segs, off)
	}
	for {
		if len(segs) == 1 {
			n, err = unix.Write(s.fd, segs[0].b[off:])
		} else {
			n, err = writev(s.fd, segs, off)
		}
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, err
		default:
			return n, nil
		}
	}
}

const mostVectors = 64

var vectors = sync.Pool{New: func() any { return new([mostVectors]unix.Iovec) }}

func writev(fd int, segs []seg, off int) (int, error) {
	iov := vectors.Get().(*[mostVectors]unix.Iovec)
	defer vectors.Put(iov)
	k := 0
	for _, s := range segs[:min(len(segs), mostVectors)] {
		b := s.b[off:]
		off = 0
		iov[k].Base = unsafe.SliceData(b)
		iov[k].SetLen(len(b))
		k++
	}
	n, _, e := syscall.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(iov)), uintptr(k))
	clear(iov[:k])
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
