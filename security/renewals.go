package security

import (
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// renewals are the credentials that were followed by newer ones on their
// connections, until those have expired. The zero value has none.
type renewals struct {
	mu     sync.RWMutex
	latest map[shownCredential]*latest
	sweep  int // how many there may be before those that have expired are removed
}

// A shownCredential is a credential that a principal came in with.
type shownCredential struct {
	party      protocol.Party
	method, id string
	expires    int64
}

// latest is the last credential of a connection. All credentials that were shown
// on it before lead here.
type latest struct{ who *protocol.Principal }

func shownBy(who *protocol.Principal) shownCredential {
	return shownCredential{who.Party(), who.Method, who.Credential, who.Expires.UnixNano()}
}

// leastSweep is the number of renewals that are kept without looking which have expired.
const leastSweep = 1024

// note has a credential be followed by another.
func (r *renewals) note(before, who *protocol.Principal, now time.Time) {
	if before.Expires.IsZero() || !before.Same(who) {
		return // it does not end, or is another principal's
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		r.latest, r.sweep = make(map[shownCredential]*latest), leastSweep
	}
	if len(r.latest) >= r.sweep {
		for shown, l := range r.latest {
			if over(l.who, now) {
				delete(r.latest, shown)
			}
		}
		r.sweep = max(2*len(r.latest), leastSweep)
	}
	l := r.latest[shownBy(before)]
	if l == nil {
		l = new(latest)
		r.latest[shownBy(before)] = l
	}
	l.who = who
	r.latest[shownBy(who)] = l
}

// of returns the principal as its newer credential authenticated it, nil if there
// is none with the same roles and scopes.
func (r *renewals) of(who *protocol.Principal, now time.Time) *protocol.Principal {
	r.mu.RLock()
	defer r.mu.RUnlock()
	l := r.latest[shownBy(who)]
	if l == nil || over(l.who, now) || !slices.Equal(l.who.Roles, who.Roles) || !slices.Equal(l.who.Scopes, who.Scopes) {
		return nil
	}
	return l.who
}

func over(who *protocol.Principal, now time.Time) bool {
	return !who.Expires.IsZero() && !now.Before(who.Expires)
}
