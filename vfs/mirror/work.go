package mirror

import (
	"sync"
	"time"
)

// The pace at which a path that fails is tried again.
const (
	retryFrom  = 500 * time.Millisecond
	retryUntil = 5 * time.Minute
)

// A backlog is the work that is left: the paths to be applied, the failures of
// each, and the paths that are refused until their files change.
type backlog struct {
	mu      sync.Mutex
	dirty   map[string]bool
	failed  map[string]*failure
	refused map[string]refused
}

// refused is the reason why a path is not mirrored.
type refused struct {
	reason string
	found  bool // by a scan, which looks again
}

// A failure is a path that is tried again later.
type failure struct {
	err   error
	count int
	again time.Time
}

func newBacklog() *backlog {
	return &backlog{dirty: make(map[string]bool), failed: make(map[string]*failure), refused: make(map[string]refused)}
}

// add notes that a path is to be looked at.
func (b *backlog) add(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirty[path] = true
}

// done notes that a path is in order, and whether both ends have a file there.
// A path that a scan refused and neither end has is still in the folder.
func (b *backlog) done(path string, mirrored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.dirty, path)
	delete(b.failed, path)
	if mirrored || !b.refused[path].found {
		delete(b.refused, path)
	}
}

// vanished notes that nothing stands at a path any more.
func (b *backlog) vanished(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, path)
}

// fail notes that a path failed. It stays to be done.
func (b *backlog) fail(path string, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirty[path] = true
	f := b.failed[path]
	if f == nil {
		f = new(failure)
		b.failed[path] = f
	}
	f.err = err
	f.count++
	f.again = now.Add(backoff(retryFrom, retryUntil, f.count))
}

// refuse notes why a path is not mirrored. It is not to be done any more.
func (b *backlog) refuse(path, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.dirty, path)
	delete(b.failed, path)
	b.refused[path] = refused{reason: reason}
}

// refuseAll replaces all refusals of things in the folder, after a full scan.
func (b *backlog) refuseAll(reasons map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = make(map[string]refused, len(reasons))
	for path, reason := range reasons {
		b.refused[path] = refused{reason, true}
		delete(b.dirty, path)
		delete(b.failed, path)
	}
}

// due lists the paths to look at now, and when the next is due after that.
func (b *backlog) due(now time.Time) (paths []string, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path := range b.dirty {
		if f := b.failed[path]; f != nil && now.Before(f.again) {
			if next.IsZero() || f.again.Before(next) {
				next = f.again
			}
			continue
		}
		paths = append(paths, path)
	}
	return paths, next
}

// hasten makes everything due, because the circumstances have changed.
func (b *backlog) hasten(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.failed {
		f.again, f.count = now, min(f.count, 1)
	}
}

// empty reports whether nothing is to be done, and nothing to be said.
func (b *backlog) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dirty)+len(b.failed)+len(b.refused) == 0
}

// held reports whether a path failed and its time has not come.
func (b *backlog) held(path string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.failed[path]
	return f != nil && now.Before(f.again)
}
