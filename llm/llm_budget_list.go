package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
)

var budgetList = commands.Spec{
	Name:    "llm.budget.list",
	Summary: "List the budgets for language models: what is spent and left, and when each begins anew; those used up most first.",
	Effect:  commands.Read,
	Action:  "llm:spend",
	Example: `{}`,
}

// BudgetListParams are the params of llm.budget.list: none.
type BudgetListParams struct{}

// BudgetListResult is the result of llm.budget.list.
type BudgetListResult struct {
	Budgets []model.BudgetView `json:"budgets" doc:"budgets that bound the caller; for managers of a space also those of its other principals that have spent something"`
	Total   int                `json:"total" doc:"number of all budgets; at most 1000 are listed, those used up most first"`
}

// mostBudgets is the greatest number of budgets in a result.
const mostBudgets = 1000

// BudgetList lists the budgets that bound the caller, for managers of a space also
// those of its other principals.
func (s *Service) BudgetList(_ context.Context, call *commands.Call, _ BudgetListParams) (BudgetListResult, error) {
	all := s.opts.Models.Budgets(call.Principal)
	return BudgetListResult{Budgets: all[:min(len(all), mostBudgets)], Total: len(all)}, nil
}
