package exclusive

import (
	"context"
	"sync"
)

// keyLocks are locks by key. Those that nobody holds or waits for take no room.
type keyLocks struct {
	mu  sync.Mutex
	all map[string]*keyLock
}

type keyLock struct {
	free  chan struct{} // holds a token while nobody has the lock
	users int
}

func (l *keyLocks) enter(key string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[key]
	if k == nil {
		k = &keyLock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		if l.all == nil {
			l.all = make(map[string]*keyLock)
		}
		l.all[key] = k
	}
	k.users++
	return k
}

func (l *keyLocks) leave(key string, k *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.all, key)
	}
}

// lock waits for the lock of a key until ctx ends.
func (l *keyLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	k := l.enter(key)
	select {
	case <-k.free:
		return l.unlocker(key, k), nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, context.Cause(ctx)
	}
}

// try takes the lock of a key if nobody has it.
func (l *keyLocks) try(key string) (unlock func(), ok bool) {
	k := l.enter(key)
	select {
	case <-k.free:
		return l.unlocker(key, k), true
	default:
		l.leave(key, k)
		return nil, false
	}
}

func (l *keyLocks) unlocker(key string, k *keyLock) func() {
	return sync.OnceFunc(func() {
		k.free <- struct{}{}
		l.leave(key, k)
	})
}
