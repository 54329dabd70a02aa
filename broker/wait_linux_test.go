package broker

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// A rung is a wait for one bell, which the test rings.
type rung struct {
	*testing.T
	wait
	bell   int
	crowd  bool
	events []unix.EpollEvent
}

func newRung(t *testing.T) *rung {
	t.Helper()
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: theBell}); err != nil {
		t.Fatal(err)
	}
	r := &rung{T: t, bell: bell, events: make([]unix.EpollEvent, 4)}
	r.wait = wait{epfd: epfd, crowded: func() bool { return r.crowd }, polling: freely()}
	r.begin()
	t.Cleanup(func() { _, _ = unix.Close(epfd), unix.Close(bell) })
	return r
}

func (r *rung) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(r.bell, one[:]); err != nil {
		r.Error(err)
	}
}

func (r *rung) hush() {
	var was [8]byte
	if _, err := unix.Read(r.bell, was[:]); err != nil {
		r.Error(err)
	}
}

// wants waits and fails the test for another number of events.
func (r *rung) wants(n, most int) {
	r.Helper()
	if got, err := r.wait.events(r.events, most); err != nil || got != n {
		r.Fatalf("a wait: %d events, %v; want %d", got, err, n)
	}
}

// TestAWaitIsParkedInACrowd tests that a reader changes its way to wait for a crowd that
// stays, and back, and is woken in both.
func TestAWaitIsParkedInACrowd(t *testing.T) {
	r := newRung(t)
	defer r.end()
	r.crowd = true
	for range crowdedFrom - 1 {
		r.wants(0, 0)
	}
	if r.parked != nil {
		t.Error("a crowd of a moment has it parked")
	}
	for range crowdedFor {
		r.wants(0, 1) // its time passes
		go r.ring()
		r.wants(1, -1) // woken
		r.hush()
	}
	if r.parked == nil {
		t.Fatal("it is not parked in a crowd")
	}
	r.crowd = false
	for range crowdedFor / 2 {
		r.wants(0, 0)
	}
	if r.parked == nil {
		t.Error("it has forgotten the crowd at once")
	}
	go r.ring()
	r.wants(1, -1)
	for range crowdedFor / 2 {
		r.wants(1, -1)
	}
	if r.parked != nil {
		t.Error("it is parked although there is no crowd any more")
	}
	r.hush()
	r.wants(0, 1)
}

// TestAParkedWaitLeavesNothingOpen tests that the descriptor for Go's poller is closed.
func TestAParkedWaitLeavesNothingOpen(t *testing.T) {
	r := newRung(t)
	r.crowd = true
	for range crowdedFrom {
		r.wants(0, 0)
	}
	file := r.parked
	if file == nil {
		t.Fatal("it is not parked")
	}
	r.end()
	if err := file.Close(); err == nil {
		t.Error("the descriptor was left open")
	}
	r.wait.crowded = nil
	r.begin()
	r.ring()
	r.wants(1, -1) // the descriptor of epoll is still good
	r.end()
}
