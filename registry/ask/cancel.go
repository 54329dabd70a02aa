package ask

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// cancel asks an agent to stop working on an exchange. The agent need not
// answer. A skill that is called without one sees that its caller hangs up.
func (s *Service) cancel(ctx context.Context, e *exchange, call *commands.Call, reason string) {
	if e.Agent == nil {
		return
	}
	params, err := json.Marshal(cancelParams{TaskID: e.id, Reason: reason})
	if err != nil {
		s.log.Error("cancellation not rendered", "error", err)
		return
	}
	envelope := s.envelope(s.opts.NewID(), "task.cancel", params, call, time.Now())
	told := &exchange{id: e.id, Peer: e.Peer} // of which nothing more is expected
	if _, err := s.deliver(context.WithoutCancel(ctx), told, s.wayOrSession(e.Peer), &delivery{envelope: envelope, expiry: cancelExpiry, notice: true}); err != nil {
		s.log.Debug("cancellation not sent", "agent", e.agentID(), "trace", call.TraceID, "error", err)
	}
}

// cancelParams are the params of the task.cancel an agent gets: the id of the
// request it is about.
type cancelParams struct {
	TaskID string `json:"task_id"`
	Reason string `json:"reason"`
}

// cancelExpiry is the time that a cancellation is worth delivering.
const cancelExpiry = time.Minute
