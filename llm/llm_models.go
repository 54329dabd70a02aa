package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
)

var models = commands.Spec{
	Name:    "llm.models",
	Summary: "List the language models that may be asked.",
	Effect:  commands.Read,
	Action:  "llm:models",
	Example: `{}`,
}

// ModelsParams are the params of llm.models: none.
type ModelsParams struct{}

// ModelsResult is the result of llm.models.
type ModelsResult struct {
	Models []model.View `json:"models" doc:"in the order of the configuration"`
}

// Models lists the models that the caller may ask.
func (s *Service) Models(_ context.Context, call *commands.Call, _ ModelsParams) (ModelsResult, error) {
	return ModelsResult{Models: s.opts.Models.ListFor(call.Principal)}, nil
}
