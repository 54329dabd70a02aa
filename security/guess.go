package security

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Guess waits until the password of a user may be tried from an address; done is
// called when its failure was counted or it was right. It fails with 4009 while the
// address or the user has to wait for failing too often. Guesses under way count as
// failures, so that concurrent ones get no further than sequential ones. From an
// address where the user's password was right before, one may be tried all the
// same, so that neither neighbours nor strangers lock out a device at its usual
// address. [Throttle.Guessed] or [Throttle.Failed] is to be called with the
// outcome.
func (t *Throttle) Guess(ctx context.Context, from netip.Addr, user string) (done func(), err error) {
	for {
		over, wait := t.guess(from, user)
		switch {
		case over == nil && wait == 0:
			return func() { t.guessed(from, user) }, nil
		case t.regulars.take(regular(from, user)):
			return func() {}, nil
		case wait > 0:
			return nil, tooMany(wait)
		}
		select {
		case <-over:
		case <-ctx.Done():
			return nil, tooMany(longestDelay)
		}
	}
}

// guess counts a guess as one of the address and of the user, or of neither.
func (t *Throttle) guess(from netip.Addr, user string) (over <-chan struct{}, wait time.Duration) {
	if over, wait = t.addresses.guess(prefix(from)); over != nil || wait > 0 {
		return over, wait
	}
	if over, wait = t.names.guess(hashOf(userName(user))); over != nil || wait > 0 {
		t.addresses.guessed(prefix(from))
	}
	return over, wait
}

func (t *Throttle) guessed(from netip.Addr, user string) {
	t.addresses.guessed(prefix(from))
	t.names.guessed(hashOf(userName(user)))
}

// Guessed notes that the password of a user was right.
func (t *Throttle) Guessed(from netip.Addr, user string) { t.regulars.add(regular(from, user)) }

// userName is the name that a user fails under.
func userName(user string) string { return "user " + user }

func regular(from netip.Addr, user string) nameHash {
	return hashOf(prefix(from).String() + " " + user)
}

// regulars are users at the addresses where their passwords were right last.
// Their memory is bounded: when it is full, any other is forgotten.
type regulars struct {
	mu    sync.Mutex
	known map[nameHash]struct{}
}

func (r *regulars) add(key nameHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[nameHash]struct{})
	}
	if _, there := r.known[key]; !there && len(r.known) >= maxRemembered {
		for other := range r.known {
			delete(r.known, other)
			break
		}
	}
	r.known[key] = struct{}{}
}

// take reports whether a user at an address is a regular, and removes it from the
// regulars until the password is right again.
func (r *regulars) take(key nameHash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.known[key]
	delete(r.known, key)
	return there
}
