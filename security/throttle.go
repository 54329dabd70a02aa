package security

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The delays of failed attempts.
const (
	firstDelay    = 50 * time.Millisecond // of the answer to a failure, doubled each time
	longestDelay  = time.Second
	freeFailures  = 30               // failures that are answered before an offender has to wait
	waitFor       = 30 * time.Second // after the last failure that was answered
	maxRemembered = 10_000           // addresses, and as many names
	sampled       = 16               // offenders looked at to forget one
)

// A Throttle slows down clients that keep failing: by the address they come from
// and by the names they fail under, so that neither many names from one
// address nor many addresses for one name get further. A client with the right key or
// token never meets it.
type Throttle struct {
	addresses failures[netip.Addr]
	names     failures[nameHash]
	regulars  regulars
	news      news
}

// A nameHash is the hash of a claimed name, to bound its size.
type nameHash [16]byte

// NewThrottle returns a throttle that has seen no failure.
func NewThrottle(now func() time.Time) *Throttle {
	return &Throttle{addresses: failures[netip.Addr]{now: now}, names: failures[nameHash]{now: now}}
}

// Failed waits as long as the answer to a wrong credential should take: longer each time.
// A client that has failed too often gets 4009 instead. All doors call it, so that failures are
// counted together.
func (t *Throttle) Failed(ctx context.Context, from netip.Addr, names ...string) error {
	delay, wait := t.failed(from, names...)
	if wait > 0 {
		return tooMany(wait)
	}
	pause := time.NewTimer(delay)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	return nil
}

func tooMany(wait time.Duration) error {
	return protocol.Errorf(protocol.RateLimited, "too many failed attempts").With("retry_after_ms", wait.Milliseconds())
}

// failed notes a failure from an address, under names such as a client id and
// the id of a key. It returns how long its answer should take, or how long the
// offender has to wait. An address that has to wait does no harm to names.
func (t *Throttle) failed(from netip.Addr, names ...string) (delay, wait time.Duration) {
	if delay, wait = t.addresses.failed(prefix(from)); wait > 0 {
		return 0, wait
	}
	hashes := make([]nameHash, len(names))
	for i, name := range names {
		hashes[i] = hashOf(name)
		d, w := t.names.failed(hashes[i])
		delay, wait = max(delay, d), max(wait, w)
	}
	if wait == 0 {
		t.news.add(prefix(from), hashes)
	}
	return delay, wait
}

func hashOf(name string) nameHash {
	sum := sha256.Sum256([]byte(name))
	return nameHash(sum[:16])
}

// failures remembers which of one kind keep failing. Its memory is bounded:
// when it is full, one that failed long ago is forgotten.
type failures[K comparable] struct {
	now func() time.Time

	mu        sync.Mutex
	offenders map[K]*offender
}

type offender struct {
	failures int
	last     time.Time     // failure that was answered
	guesses  int           // being tried, each of which may be a failure
	over     chan struct{} // closed when an attempt is over; nil if none waits
}

func (f *failures[K]) failed(key K) (delay, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	o := f.offender(key, now)
	if o.failures >= freeFailures {
		return 0, waitFor - now.Sub(o.last)
	}
	o.failures++
	o.last = now
	return min(firstDelay<<(o.failures-1), longestDelay), 0
}

// offender is the one of a key, whose failures of long ago are forgotten. mu is held.
func (f *failures[K]) offender(key K, now time.Time) *offender {
	o := f.offenders[key]
	if o == nil {
		f.makeRoom(now)
		o = &offender{}
		f.offenders[key] = o
	}
	if now.Sub(o.last) >= waitFor {
		o.failures = 0
	}
	return o
}

// guess counts a guess as being tried, until [failures.guessed]. It does not if the
// key has to wait, or if the guesses that are being tried could be all the failures
// that are left: over is closed when one of them is over.
func (f *failures[K]) guess(key K) (over <-chan struct{}, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	o := f.offender(key, now)
	switch {
	case o.failures >= freeFailures:
		return nil, waitFor - now.Sub(o.last)
	case o.failures+o.guesses >= freeFailures:
		if o.over == nil {
			o.over = make(chan struct{})
		}
		return o.over, 0
	}
	o.guesses++
	return nil, 0
}

// guessed ends a guess, after its failure was counted if it was one.
func (f *failures[K]) guessed(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.offenders[key]
	if o == nil || o.guesses == 0 {
		return // it was forgotten meanwhile
	}
	o.guesses--
	o.tell()
	if o.guesses == 0 && o.failures == 0 {
		delete(f.offenders, key)
	}
}

// tell wakes the waiters for a guess to be over.
func (o *offender) tell() {
	if o.over != nil {
		close(o.over)
		o.over = nil
	}
}

// makeRoom forgets, when the memory is full, those of a few offenders picked
// at random that need not be remembered, at least the oldest. So it takes as
// long however many there are.
func (f *failures[K]) makeRoom(now time.Time) {
	if f.offenders == nil {
		f.offenders = make(map[K]*offender)
	}
	if len(f.offenders) < maxRemembered {
		return
	}
	var oldest K
	var at time.Time
	looked := 0
	for key, o := range f.offenders { // in random order
		if now.Sub(o.last) >= waitFor && o.guesses == 0 {
			delete(f.offenders, key)
		} else if at.IsZero() || o.last.Before(at) {
			oldest, at = key, o.last
		}
		if looked++; looked == sampled {
			break
		}
	}
	if len(f.offenders) >= maxRemembered {
		f.offenders[oldest].tell()
		delete(f.offenders, oldest)
	}
}

// prefix is the unit of addresses for limits: an IPv6 /64 belongs to one site.
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
