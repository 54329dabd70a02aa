package loop

import (
	"fmt"

	"github.com/aibridge/aibridge/llm/tools"
)

// Health is the record of a conversation's recent calls. It outlives an answer: locked
// tools stay so until a reset.
type Health struct {
	Recent []bool `json:"recent,omitempty"` // failures among the last calls, the latest last
	Locked string `json:"locked,omitempty"` // reason why the tools are locked, "" if they are not
}

// maxRecent is the greatest number of recent calls that are recorded, even for a longer
// window.
const maxRecent = 1000

// note records the outcome of a call, and locks the conversation if too many of the
// last calls failed.
func (h *Health) note(failed bool, l Limits) {
	window := min(l.Window, maxRecent)
	h.Recent = append(h.Recent, failed)
	if more := len(h.Recent) - window; more > 0 {
		h.Recent = append(h.Recent[:0], h.Recent[more:]...)
	}
	if len(h.Recent) < window || h.Locked != "" {
		return
	}
	failures := 0
	for _, f := range h.Recent {
		if f {
			failures++
		}
	}
	if failures*100 >= l.Errors*window {
		h.Locked = fmt.Sprintf("%d of the last %d calls of tools failed", failures, window)
	}
}

// A watch counts the failures among the calls of one answer.
type watch struct {
	limits Limits
	health *Health
	row    int // failures since the last success
	failed Failures
}

func newWatch(l Limits, h *Health) *watch {
	return &watch{limits: l, health: h}
}

// see counts the result of a call. It returns a warning for the model if the same call
// has failed too often.
func (w *watch) see(tool string, status tools.Status, arguments []byte) (warning string) {
	if status == tools.Skipped {
		return ""
	}
	failed := status == tools.Failed
	w.health.note(failed, w.limits)
	n := w.failed.See(tool, arguments, failed)
	if !failed {
		w.row = 0
		return ""
	}
	w.row++
	if n%w.limits.Repeats == 0 {
		return fmt.Sprintf("The call of %s with the same arguments has failed %d times. Do not repeat it: change the arguments, use another tool, or go on without it.", tool, n)
	}
	return ""
}

// exhausted reports whether so many calls in a row failed that the user must be asked.
func (w *watch) exhausted() bool { return w.row >= w.limits.Failures }
