package task

import (
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the tasks kept after their end.
const (
	keepFor   = 24 * time.Hour
	keepCount = 10_000
	sweepPace = time.Minute
)

// sweep forgets old tasks from time to time.
func (s *Service) sweep() {
	ticker := time.NewTicker(sweepPace)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			for _, id := range s.expired() {
				if err := s.Tasks.Delete(s.ctx, id, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
					s.Log.Warn("an old task is not forgotten", "task", id, "error", err)
					break
				}
			}
		}
	}
}

// expired lists the tasks to forget: those that ended too long ago, and the
// oldest beyond the kept number.
func (s *Service) expired() []string {
	var ended []*Task
	for _, t := range s.Tasks.All() {
		if t.hasSuccessor() {
			t = &s.standing(t).Task
		}
		if t.Ended != nil {
			ended = append(ended, t)
		}
	}
	slices.SortFunc(ended, func(a, b *Task) int { return strings.Compare(string(a.ID), string(b.ID)) })
	excess := len(ended) - keepCount
	var ids []string
	for i, t := range ended {
		if i < excess || s.Now().Sub(*t.Ended) > keepFor {
			ids = append(ids, string(t.ID))
		}
	}
	return ids
}
