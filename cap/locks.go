package cap

import "sync"

// locks has a lock for each Cap in use: commands that add to a Cap hold it shared,
// those that end the Cap or a group of it hold it alone. So no data is set of a
// group that has ended. The zero value is ready.
type locks struct {
	mu sync.Mutex
	of map[string]*lock // by key of the Cap
}

type lock struct {
	sync.RWMutex
	users int // that hold it or wait for it
}

// share locks a Cap against its end. The caller calls the result when it is done.
func (l *locks) share(cap string) (release func()) {
	held := l.use(cap)
	held.RLock()
	return func() {
		held.RUnlock()
		l.leave(cap, held)
	}
}

// take locks a Cap for one alone. The caller calls the result when it is done.
func (l *locks) take(cap string) (release func()) {
	held := l.use(cap)
	held.Lock()
	return func() {
		held.Unlock()
		l.leave(cap, held)
	}
}

func (l *locks) use(cap string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.of[cap]
	if held == nil {
		if l.of == nil {
			l.of = make(map[string]*lock)
		}
		held = new(lock)
		l.of[cap] = held
	}
	held.users++
	return held
}

func (l *locks) leave(cap string, held *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held.users--; held.users == 0 {
		delete(l.of, cap)
	}
}
