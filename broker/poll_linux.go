package broker

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A polling is whether a reader asks epoll again and again for a while instead of going to
// sleep at once. To be woken takes longer, and more processor time of both sides, than to
// wait awake for what comes within some 50 µs, as the next call of a client that waits for
// each answer does. So it is tried once waits have been short for a while, and goes on as
// long as what it waits for comes that soon. Where a wait brings many clients' messages at
// once it had better be slept through, so that more come together. So had longer ones, as
// between messages at a pace; where they look short and are not, trying is put off for
// twice as many.
type polling struct {
	spare func() bool // a processor is left for others meanwhile

	on    bool
	short int           // waits in a row that might have been polled
	need  int           // of them before polling is tried
	tried int           // waits since it is on
	mean  time.Duration // of these, the latest count most
}

const (
	pollTime  = 100 * time.Microsecond // of a wait at most
	pollPays  = 30 * time.Microsecond  // mean wait above which it costs more than to sleep
	pollFew   = 4                      // sockets ready after a wait, above which it had better be slept through
	pollFrom  = 16                     // short waits before polling is tried
	pollLast  = 4096                   // the same after it has failed again and again
	pollProof = 64                     // waits after which it has not failed
	pollMean  = 8                      // waits that the mean goes by
)

// newPolling is for one of several readers. The runtime is asked again and again, since
// it follows the limit of the container, which may change.
func newPolling(readers int, processors func() int) polling {
	return polling{spare: func() bool { return processors() > readers }, need: pollFrom}
}

// processors is the number of threads that run goroutines at a time.
func processors() int { return runtime.GOMAXPROCS(0) }

// note learns from a wait and the number of sockets that were ready then.
func (p *polling) note(took time.Duration, ready int) {
	if ready > pollFew {
		took = max(took, 2*pollTime)
	}
	switch {
	case p.on:
		p.judge(took)
	case took > pollTime:
		p.short = 0
	default:
		if p.short++; p.short >= p.need {
			p.on, p.short, p.tried, p.mean = p.spare(), 0, 0, 0
		}
	}
}

// judge ends polling when it does not pay.
func (p *polling) judge(took time.Duration) {
	if p.tried++; p.tried == pollProof {
		p.need = pollFrom
	}
	p.mean += (min(took, 2*pollTime) - p.mean) / pollMean
	pays := p.mean <= pollPays && took < 10*pollTime
	if pays && (p.tried%pollProof != 0 || p.spare()) {
		return
	}
	p.on, p.short = false, 0
	if p.tried < pollProof {
		p.need = min(2*p.need, pollLast)
	}
}

// sleep waits until sockets are ready, at first without sleeping if that pays.
func (w *wait) sleep(events []unix.EpollEvent, most int) (n int, err error) {
	began := time.Now()
	if w.polling.on && w.score == 0 {
		n, err = pollUntil(w.epfd, events, began.Add(pollTime))
	}
	if n == 0 && err == nil {
		n, err = unix.EpollWait(w.epfd, events, most)
	}
	took := time.Since(began)
	w.idle += took
	w.polling.note(took, n)
	return n, err
}

// pollUntil asks epoll until sockets are ready or a time is reached. The runtime is not
// told of these system calls, which do not block.
func pollUntil(epfd int, events []unix.EpollEvent, end time.Time) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
		switch {
		case e != 0:
			return 0, e
		case n > 0 || !time.Now().Before(end):
			return int(n), nil
		}
	}
}
