package security

import (
	"net/netip"
	"sync"
	"time"
)

// How failed attempts are slowed down.
const (
	firstDelay    = 100 * time.Millisecond // of the answer to a failure, doubled each time
	longestDelay  = 2 * time.Second
	freeFailures  = 10               // that are answered, before an address is told to wait
	waitFor       = 30 * time.Second // after the last failure that was answered
	maxRemembered = 10_000           // addresses
	sampled       = 16               // addresses looked at to forget one
)

// A throttle remembers which addresses keep failing. Its memory is bounded:
// when it is full, one that failed long ago is forgotten.
type throttle struct {
	now func() time.Time

	mu        sync.Mutex
	offenders map[netip.Addr]*offender
}

type offender struct {
	failures int
	last     time.Time // failure that was answered
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, offenders: make(map[netip.Addr]*offender)}
}

// failed notes a failure. It returns how long its answer should take, or, for
// an address that has failed too often, how long that has to wait.
func (t *throttle) failed(from netip.Addr) (delay, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), prefix(from)
	o := t.offenders[key]
	switch {
	case o == nil:
		t.makeRoom(now)
		o = &offender{}
		t.offenders[key] = o
	case now.Sub(o.last) >= waitFor:
		o.failures = 0
	case o.failures >= freeFailures:
		return 0, waitFor - now.Sub(o.last)
	}
	o.failures++
	o.last = now
	return min(firstDelay<<(o.failures-1), longestDelay), 0
}

// makeRoom forgets, when the memory is full, those of a few addresses picked
// at random that need not be remembered, at least the oldest. So it takes as
// long however many addresses there are.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.offenders) < maxRemembered {
		return
	}
	var oldest netip.Addr
	var at time.Time
	looked := 0
	for addr, o := range t.offenders { // in random order
		if now.Sub(o.last) >= waitFor {
			delete(t.offenders, addr)
		} else if at.IsZero() || o.last.Before(at) {
			oldest, at = addr, o.last
		}
		if looked++; looked == sampled {
			break
		}
	}
	if len(t.offenders) >= maxRemembered {
		delete(t.offenders, oldest)
	}
}

// prefix is what counts as one address: an IPv6 /64 belongs to one site.
func prefix(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}
