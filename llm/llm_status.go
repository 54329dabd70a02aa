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

// Status tells how the models fare that the caller's space may use.
func (s *Service) Status(_ context.Context, call *commands.Call, _ StatusParams) (StatusResult, error) {
	return s.opts.Models.Status(call.Principal), nil
}
