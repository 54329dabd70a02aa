package parked

import "github.com/aibridge/aibridge/protocol"

// Attended reports whether anybody waits for a task.
func (s *Service) Attended(id protocol.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heard[id]) > 0
}

// Tally is the number of tasks that have not ended, and what is kept of them.
func (s *Service) Tally() (tasks, bytes int) { return s.tally.total() }
