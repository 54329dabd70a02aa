package task

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var get = commands.Spec{
	Name:    "task.get",
	Summary: "Show a task: its state, and its result once it has ended.",
	Effect:  commands.Read,
	Action:  "task:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"task_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"}`,
}

// GetParams name a task.
type GetParams struct {
	TaskID protocol.TaskID `json:"task_id" doc:"id of the task"`
}

// Target is the task.
func (p GetParams) Target() commands.Resource {
	return commands.Resource{Type: "task", ID: string(p.TaskID)}
}

// Get shows a task.
func (s *Service) Get(_ context.Context, call *commands.Call, p GetParams) (Task, error) {
	t, err := s.lookup(call.Principal, p.TaskID)
	if err != nil {
		return Task{}, err
	}
	return s.view(t), nil
}
