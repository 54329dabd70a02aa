package cap

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var rolloutRetry = commands.Spec{
	Name:    "group.rollout.retry",
	Summary: "Have a rollout ask members again that failed, also when it has ended.",
	Effect:  commands.Act,
	Action:  "group:rollout",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"task_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","states":["failed"]}`,
}

// RolloutRetryParams are the params of group.rollout.retry.
type RolloutRetryParams struct {
	RolloutParams
	States     []rollout.State `json:"states,omitempty" len:"1-3" enum:"failed,rejected,timed_out" doc:"which members; those that failed when absent. One that timed out may have done it"`
	ValidUntil time.Time       `json:"valid_until,omitzero" doc:"time from which nobody is asked any more, RFC 3339, up to 90 days from now; as before when absent"`
}

// RetryRollout queues members again.
func (s *Service) RetryRollout(ctx context.Context, call *commands.Call, p RolloutRetryParams) (RolloutResult, error) {
	if _, err := s.rolloutOf(call, p.TaskID); err != nil {
		return RolloutResult{}, err
	}
	if p.States == nil {
		p.States = []rollout.State{rollout.Failed}
	}
	return steered(s.opts.Rollouts.Retry(ctx, p.TaskID, p.States, p.ValidUntil))
}
