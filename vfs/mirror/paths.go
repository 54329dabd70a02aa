package mirror

import "sync"

// pathLocks let one goroutine at a time work on a path.
type pathLocks struct {
	mu    sync.Mutex
	paths map[string]*pathLock
}

type pathLock struct {
	sync.Mutex
	users int
}

// lock waits for a path and returns how to let go of it.
func (l *pathLocks) lock(path string) (unlock func()) {
	l.mu.Lock()
	if l.paths == nil {
		l.paths = make(map[string]*pathLock)
	}
	p := l.paths[path]
	if p == nil {
		p = new(pathLock)
		l.paths[path] = p
	}
	p.users++
	l.mu.Unlock()
	p.Lock()
	return func() {
		p.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(l.paths, path)
		}
	}
}
