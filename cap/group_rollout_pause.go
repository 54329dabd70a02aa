package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var rolloutPause = commands.Spec{
	Name:    "group.rollout.pause",
	Summary: "Have a rollout ask nobody else until it is resumed; who was asked may finish.",
	Effect:  commands.Write,
	Action:  "group:rollout",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"task_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","reason":"a storm is coming"}`,
}

// RolloutPauseParams are the params of group.rollout.pause.
type RolloutPauseParams struct {
	RolloutParams
	Reason string `json:"reason,omitempty" len:"1-256" text:"line" doc:"reason, for later questions"`
}

// PauseRollout pauses a rollout.
func (s *Service) PauseRollout(ctx context.Context, call *commands.Call, p RolloutPauseParams) (RolloutResult, error) {
	if _, err := s.rolloutOf(call, p.TaskID); err != nil {
		return RolloutResult{}, err
	}
	return steered(s.opts.Rollouts.Pause(ctx, p.TaskID, p.Reason))
}
