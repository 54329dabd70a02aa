package broker

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A wait is the way in which a reader waits for something to read. Mostly it has a thread
// of its own, which waits in the kernel: to have Go's poller watch the epoll descriptor,
// so that a goroutine is parked instead, takes twice the processor time a message when
// there is little to do. But such a thread keeps its place among those that run
// goroutines (a P) for as long as the runtime's monitor leaves it there, which is 20 µs to
// 10 ms: where many goroutines want to run, a processor stands idle meanwhile. So while
// the process is crowded the reader is parked like any other goroutine.
type wait struct {
	epfd    int
	crowded func() bool // nil if it never is

	polling polling
	idle    time.Duration // waited until now, at least the waits that had an end

	score  int      // above 0 for waits at which it was lately
	parked *os.File // the epoll descriptor in the care of Go's poller, nil with a thread of its own
	conn   syscall.RawConn
	timed  bool // parked has a deadline
}

// The bounds of a wait's score. Few crowded waits in a row are no reason to change the
// way, and after that a hundred calm ones are.
const (
	crowdedFrom = 16
	crowdedFor  = 128
)

// begin has the reader wait on the thread that calls it.
func (w *wait) begin() {
	runtime.LockOSThread() // a thread that waits in the kernel is found there again
}

// end frees what the reader waited with. The descriptor of epoll stays open.
func (w *wait) end() { w.leave() }

// events waits until sockets are ready, at most for a time in milliseconds if that is not
// negative, and reports how many.
func (w *wait) events(events []unix.EpollEvent, most int) (int, error) {
	if w.judge(); w.parked != nil {
		return w.park(events, most)
	}
	return w.sleep(events, most)
}

// judge changes the way to wait when there is a reason.
func (w *wait) judge() {
	if w.crowded == nil {
		return
	}
	if w.crowded() {
		w.score = min(w.score+1, crowdedFor)
	} else {
		w.score = max(w.score-1, 0)
	}
	switch {
	case w.parked == nil && w.score >= crowdedFrom:
		w.enter()
	case w.parked != nil && w.score == 0:
		w.leave()
		w.begin()
	}
}

// enter gives the descriptor to Go's poller. It must not be there all the time, or each
// event would wake a thread of the runtime's, too.
func (w *wait) enter() {
	w.score = crowdedFor
	fd, err := unix.FcntlInt(uintptr(w.epfd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return // the process has too many descriptors open; the next wait tries again
	}
	_ = unix.SetNonblock(fd, true) // so that os has it polled
	file := os.NewFile(uintptr(fd), "epoll")
	conn, err := file.SyscallConn()
	if err != nil || file.SetReadDeadline(time.Time{}) != nil {
		_, w.crowded = file.Close(), nil // it cannot be polled here, and never will be
		return
	}
	w.parked, w.conn, w.timed = file, conn, false
	runtime.UnlockOSThread()
}

// leave takes the descriptor from Go's poller, or gives up the thread.
func (w *wait) leave() {
	if w.parked == nil {
		runtime.UnlockOSThread()
		return
	}
	_ = w.parked.Close()
	w.parked, w.conn = nil, nil
}

// park is events for a goroutine: those that got answers in the last turn run first.
func (w *wait) park(events []unix.EpollEvent, most int) (n int, err error) {
	runtime.Gosched()
	if most >= 0 || w.timed {
		var until time.Time
		if w.timed = most >= 0; w.timed {
			began := time.Now()
			defer func() { w.idle += time.Since(began) }()
			until = began.Add(time.Duration(most) * time.Millisecond)
		}
		_ = w.parked.SetReadDeadline(until)
	}
	failed := w.conn.Read(func(uintptr) bool {
		n, err = unix.EpollWait(w.epfd, events, 0)
		return n > 0 || err != nil
	})
	if failed != nil && !errors.Is(failed, os.ErrDeadlineExceeded) {
		return 0, failed
	}
	return n, err
}
