package security

import (
	"net/netip"
	"sync"
)

// A Failure is a wrong credential that was shown at a bridge, for the throttles of
// others: from an address, under names that it has hashes of.
type Failure struct {
	From  netip.Addr `json:"from"`
	Names []nameHash `json:"names,omitempty"`
}

// mostNews bounds the failures that other bridges are told at a time. Failures
// above it wait for the next ones: a party that fails so often goes on failing.
const mostNews = 512

// news are failures that others have not been told of.
type news struct {
	mu     sync.Mutex
	shared bool
	failed []Failure
}

func (n *news) add(from netip.Addr, names []nameHash) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shared && len(n.failed) < mostNews {
		n.failed = append(n.failed, Failure{from, names})
	}
}

// Shared has the throttle keep failures for [Throttle.News].
func (t *Throttle) Shared() {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	t.news.shared = true
}

// News are the failures here since it was asked for last.
func (t *Throttle) News() []Failure {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	failed := t.news.failed
	t.news.failed = nil
	return failed
}

// Heard counts failures at another bridge.
func (t *Throttle) Heard(failed []Failure) {
	for _, f := range failed {
		t.addresses.heard(f.From)
		for _, name := range f.Names {
			t.names.heard(name)
		}
	}
}

// heard counts a failure that was answered elsewhere.
func (f *failures[K]) heard(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	o := f.offender(key, now)
	if o.failures < freeFailures {
		o.failures++
		o.last = now
	}
}
