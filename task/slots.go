package task

import (
	"slices"
	"sync"
)

// slots bound how many tasks run at once. Those that find none free wait in
// the order they came.
type slots struct {
	mu      sync.Mutex
	most    int
	taken   int
	waiting []*run
}

// take gives a run a slot, now or, when its turn is closed, later.
func (s *slots) take(r *run) (now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == s.most {
		s.waiting = append(s.waiting, r)
		return false
	}
	s.taken++
	close(r.turn)
	return true
}

// giveUp takes a run out, whether it waits for a slot or has one, which then
// goes to the next in line.
func (s *slots) giveUp(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, r); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return
	}
	if len(s.waiting) == 0 {
		s.taken--
		return
	}
	close(s.waiting[0].turn)
	s.waiting = slices.Delete(s.waiting, 0, 1)
}

// len is how many slots are taken.
func (s *slots) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
