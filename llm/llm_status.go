package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
)

var status = commands.Spec{
	Name:    "llm.status",
	Summary: "Say how the language models fare.",
	Effect:  commands.Read,
	Action:  "llm:status",
	Example: `{}`,
}

// StatusParams are the params of llm.status: none.
type StatusParams struct{}

// StatusResult is the result of llm.status.
type StatusResult = model.Status

// Status shows the state of the models that the caller's space may use, and to
// administrators also their state at other bridges.
func (s *Service) Status(ctx context.Context, call *commands.Call, _ StatusParams) (StatusResult, error) {
	result := s.opts.Models.Status(call.Principal)
	if s.opts.Elsewhere != nil && call.Principal.Unbounded() {
		result.Others = s.opts.Elsewhere(ctx)
	}
	return result, nil
}
