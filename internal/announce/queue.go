// Package announce publishes events and values. Their causes must not wait for that
// and often hold locks, so a goroutine of its own publishes.
package announce

import (
	"context"
	"sync"
)

// A Queue holds publications that wait: events, in order, and keys of changed
// values. A value is published as it is by then, so several changes at once are
// one.
type Queue[E any, K comparable] struct {
	most int
	wake chan struct{}

	mu     sync.Mutex
	begun  bool
	events []E
	lost   int
	stale  []K
	known  map[K]bool // the keys in stale
}

// New makes a queue of at most so many events. More are dropped and counted.
func New[E any, K comparable](most int) *Queue[E, K] {
	return &Queue[E, K]{most: most, wake: make(chan struct{}, 1), known: make(map[K]bool)}
}

// Begin lets events and values through. Before, while tables are loaded,
// nothing happens: it only becomes known.
func (q *Queue[E, K]) Begin() {
	q.mu.Lock()
	q.begun = true
	q.mu.Unlock()
}

// Begun reports whether events and values are let through.
func (q *Queue[E, K]) Begun() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begun
}

// Event has an event published. It does not block. It reports whether there was
// room for it.
func (q *Queue[E, K]) Event(e E) (taken bool) {
	q.mu.Lock()
	taken = len(q.events) < q.most
	switch {
	case !q.begun:
	case taken:
		q.events = append(q.events, e)
	default:
		q.lost++
	}
	q.mu.Unlock()
	q.signal()
	return taken
}

// Value has a value published anew. It does not block.
func (q *Queue[E, K]) Value(key K) {
	q.mu.Lock()
	if q.begun && !q.known[key] {
		q.known[key] = true
		q.stale = append(q.stale, key)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *Queue[E, K]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// A Publisher publishes events and values. It is called by one goroutine.
type Publisher[E any, K comparable] struct {
	Event func(E)
	Value func(K)
	Lost  func(events int) // that were dropped
}

// Run publishes until ctx ends, and then the rest of the queue.
func (q *Queue[E, K]) Run(ctx context.Context, p Publisher[E, K]) {
	for {
		select {
		case <-q.wake:
			q.flush(p)
		case <-ctx.Done():
			q.flush(p)
			return
		}
	}
}

// flush publishes values before events: so a subscriber that gets the event of a
// value finds the value.
func (q *Queue[E, K]) flush(p Publisher[E, K]) {
	q.mu.Lock()
	events, stale, lost := q.events, q.stale, q.lost
	q.events, q.stale, q.lost = nil, nil, 0
	clear(q.known)
	q.mu.Unlock()
	if lost > 0 {
		p.Lost(lost)
	}
	for _, key := range stale {
		p.Value(key)
	}
	for _, e := range events {
		p.Event(e)
	}
}
