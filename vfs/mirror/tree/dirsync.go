package tree

import "sync"

// A dirSyncer syncs folders for many at once: callers that come while it syncs
// share the next sync.
type dirSyncer struct {
	sync func(dir string) error

	mu   sync.Mutex
	next *turn // collects
	busy bool
}

type turn struct {
	dirs map[string]bool
	done chan struct{}
	err  error
}

// wait returns when the folders, as they are now, are durable.
func (s *dirSyncer) wait(dirs ...string) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &turn{dirs: make(map[string]bool), done: make(chan struct{})}
	}
	mine := s.next
	for _, dir := range dirs {
		mine.dirs[dir] = true
	}
	lead := !s.busy
	s.busy = true
	s.mu.Unlock()
	if lead {
		s.lead()
	}
	<-mine.done
	return mine.err
}

// lead syncs until no caller waits any more.
func (s *dirSyncer) lead() {
	for {
		s.mu.Lock()
		t := s.next
		s.next = nil
		if t == nil {
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for dir := range t.dirs {
			if err := s.sync(dir); err != nil && t.err == nil {
				t.err = err
			}
		}
		close(t.done)
	}
}
