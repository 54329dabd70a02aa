package security

import (
	"net/netip"
	"sync"
)

// Guess says whether the password of a user may be tried from an address: 4009
// while the address or the user has to wait for failing too often. Where that
// user's password was right before, it may be tried once all the same, so that
// neither neighbours nor strangers lock out a device that is at home there.
// [Throttle.Guessed] and [Throttle.Failed] are told how it went.
func (t *Throttle) Guess(from netip.Addr, user string) error {
	wait := max(t.addresses.waits(prefix(from)), t.names.waits(hashOf(userName(user))))
	if wait == 0 || t.regulars.take(regular(from, user)) {
		return nil
	}
	return tooMany(wait)
}

// Guessed notes that the password of a user was right.
func (t *Throttle) Guessed(from netip.Addr, user string) { t.regulars.add(regular(from, user)) }

// userName is what a user fails under.
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

// take reports whether somebody is a regular, who then is none until the
// password is right again.
func (r *regulars) take(key nameHash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.known[key]
	delete(r.known, key)
	return there
}
