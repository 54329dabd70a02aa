// Package keylock has locks by key, such as one for each record of a table.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks by key. A lock without a holder and waiters takes no room. The
// zero value is ready; it may be used by many goroutines.
type Locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	free  chan struct{} // holds a token while the lock is free
	users int
}

func (l *Locks) enter(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[key]
	if k == nil {
		k = &lock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		if l.all == nil {
			l.all = make(map[string]*lock)
		}
		l.all[key] = k
	}
	k.users++
	return k
}

func (l *Locks) leave(key string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.all, key)
	}
}

// Lock waits for the lock of a key until ctx ends.
func (l *Locks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	k := l.enter(key)
	select {
	case <-k.free:
		return l.unlocker(key, k), nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, context.Cause(ctx)
	}
}

// Try takes the lock of a key if it is free.
func (l *Locks) Try(key string) (unlock func(), ok bool) {
	k := l.enter(key)
	select {
	case <-k.free:
		return l.unlocker(key, k), true
	default:
		l.leave(key, k)
		return nil, false
	}
}

// unlocker gives the lock back, once however often it is called.
func (l *Locks) unlocker(key string, k *lock) func() {
	return sync.OnceFunc(func() {
		k.free <- struct{}{}
		l.leave(key, k)
	})
}
