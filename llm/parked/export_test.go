package parked

import "github.com/aibridge/aibridge/protocol"

// Attended reports whether anybody waits for a task.
func (s *Service) Attended(id protocol.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heard[id]) > 0
}
