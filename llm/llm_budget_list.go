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
	Budgets []model.BudgetView `json:"budgets" doc:"budgets that bound the caller; to who manages a space also those of others there who have spent something"`
	Total   int                `json:"total" doc:"number of all; the 1000 used up most are told"`
}

// mostBudgets is the number of those that are told.
const mostBudgets = 1000

// BudgetList tells the budgets that bound the caller, and who manages a space
// those of others there.
func (s *Service) BudgetList(_ context.Context, call *commands.Call, _ BudgetListParams) (BudgetListResult, error) {
	all := s.opts.Models.Budgets(call.Principal)
	return BudgetListResult{Budgets: all[:min(len(all), mostBudgets)], Total: len(all)}, nil
}
