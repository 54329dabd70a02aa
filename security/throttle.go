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
	freeFailures  = 10               // before an address is blocked
	blockFor      = 30 * time.Second // after the last failure
	maxRemembered = 10_000           // addresses
)

// A throttle remembers which addresses keep failing. Its memory is bounded:
// when it is full, the address that failed longest ago is forgotten.
type throttle struct {
	now func() time.Time

	mu        sync.Mutex
	offenders map[netip.Addr]*offender
}

type offender struct {
	failures int
	last     time.Time
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, offenders: make(map[netip.Addr]*offender)}
}

// blocked reports whether the address has to wait, and how long.
func (t *throttle) blocked(from netip.Addr) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.offenders[prefix(from)]
	if o == nil || o.failures < freeFailures {
		return 0, false
	}
	left := blockFor - t.now().Sub(o.last)
	return left, left > 0
}

// failed notes a failure and returns how long its answer should take.
func (t *throttle) failed(from netip.Addr) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), prefix(from)
	o := t.offenders[key]
	if o == nil || now.Sub(o.last) > blockFor {
		t.makeRoom(now)
		o = &offender{}
		t.offenders[key] = o
	}
	o.failures++
	o.last = now
	return min(firstDelay<<min(o.failures-1, 10), longestDelay)
}

// forgive forgets the failures of an address that has succeeded.
func (t *throttle) forgive(from netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.offenders, prefix(from))
}

func (t *throttle) makeRoom(now time.Time) {
	if len(t.offenders) < maxRemembered {
		return
	}
	var oldest netip.Addr
	var at time.Time
	for addr, o := range t.offenders {
		if now.Sub(o.last) > blockFor {
			delete(t.offenders, addr)
		} else if at.IsZero() || o.last.Before(at) {
			oldest, at = addr, o.last
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
