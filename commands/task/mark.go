package task

import (
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

// Mark changes whenever a task does that a principal has started. It is "" of any
// other.
func (s *Service) Mark(who *protocol.Principal, id protocol.TaskID) string {
	kept, err := s.lookup(who, id)
	if err != nil || !kept.owner().Is(who) {
		return ""
	}
	t := s.view(kept)
	mark := string(t.State)
	if t.Progress != nil {
		mark = fmt.Sprint(mark, t.Progress.Seq)
	}
	if t.Waits != nil {
		mark += t.Waits.Approval
	}
	if t.Group != nil {
		mark += fmt.Sprint(s.counts(t.ID))
	}
	return mark
}
