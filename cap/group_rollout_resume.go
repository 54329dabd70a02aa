package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var rolloutResume = commands.Spec{
	Name:    "group.rollout.resume",
	Summary: "Go on with a rollout that is paused or has stopped by itself.",
	Effect:  commands.Act,
	Action:  "group:rollout",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"task_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"}`,
}

// ResumeRollout goes on with a rollout. Failures until now stop it no more.
func (s *Service) ResumeRollout(ctx context.Context, call *commands.Call, p RolloutParams) (RolloutResult, error) {
	if _, err := s.rolloutOf(call, p.TaskID); err != nil {
		return RolloutResult{}, err
	}
	return steered(s.opts.Rollouts.Resume(ctx, p.TaskID))
}
