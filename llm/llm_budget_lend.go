package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
)

var budgetLend = commands.Spec{
	Name:    "llm.budget.lend",
	Summary: "Lend a site a part of the budgets that bound its principal, and book what it has spent; for sites. A loan is booked once, however often it is told: all amounts are counted from its beginning.",
	Effect:  commands.Write,
	Action:  "llm:budget.lend",
	Routine: true, // it is repeated as the site spends; alerts are events of their own in the audit trail
	Errors:  []protocol.Code{protocol.BudgetSpent, protocol.InvalidState, protocol.LimitReached, protocol.PermissionDenied, protocol.StoreUnavailable},
	Example: `{"site":"plant","account":"plant-bridge","number":1793923200000,"used":{"tokens":1200,"cost":0.02,"requests":3},"need":{"tokens":900,"cost":0.01,"requests":1}}`,
}

// BudgetLendParams are the params of llm.budget.lend.
type BudgetLendParams struct {
	Site    string         `json:"site" len:"1-32" pattern:"^[a-z0-9][a-z0-9_-]*$" audit:"yes" doc:"name of the site"`
	Account string         `json:"account" len:"1-64" pattern:"^[A-Za-z0-9._-]+$" audit:"yes" doc:"bridge of the site that borrows; each has one loan at a time"`
	Number  int64          `json:"number" range:"1-9007199254740991" audit:"yes" doc:"number of the loan, greater than those of earlier loans of the account, which are over then"`
	Since   int64          `json:"since,omitempty" range:"0-253402300799999" doc:"Unix ms at which the loan began; absent for a new one"`
	Used    model.Quantity `json:"used,omitzero" doc:"amount spent since the loan began"`
	Busy    model.Quantity `json:"busy,omitzero" doc:"amount reserved for queries under way"`
	Need    model.Quantity `json:"need,omitzero" doc:"least further amount; absent to tell what was spent alone"`
	Wish    model.Quantity `json:"wish,omitzero" doc:"further amount for a long answer"`
	Done    bool           `json:"done,omitempty" doc:"true if the loan is over: used is all that was spent of it"`
}

// BudgetLendResult is the result of llm.budget.lend.
type BudgetLendResult struct {
	Since int64       `json:"since" doc:"Unix ms at which the loan began"`
	Held  model.Bound `json:"held" doc:"most that may be spent of the loan, including what was; without an amount no budget bounds it"`
	Life  int64       `json:"life_ms" doc:"milliseconds in which it may be spent if it is not asked for again"`
	Short bool        `json:"short,omitempty" doc:"true if others hold the rest, so that held does not cover the need yet"`
}

// Target implements [commands.Targeter].
func (p BudgetLendParams) Target() commands.Resource {
	return commands.Resource{Type: "site", ID: p.Site}
}

// BudgetLend lends a site a part of the budgets of its principal.
func (s *Service) BudgetLend(ctx context.Context, call *commands.Call, p BudgetLendParams) (BudgetLendResult, error) {
	if s.opts.MayName == nil {
		return BudgetLendResult{}, protocol.Errorf(protocol.PermissionDenied, "this bridge has no sites")
	}
	if err := s.opts.MayName(call.Principal.Home(), p.Site+".", call.Principal); err != nil {
		return BudgetLendResult{}, err
	}
	loan, err := s.opts.Models.Lend(ctx, call.Principal, model.Demand{
		Account: p.Account, Number: p.Number, Since: p.Since, Used: p.Used, Busy: p.Busy, Need: p.Need, Wish: p.Wish, Done: p.Done,
	})
	if err != nil {
		return BudgetLendResult{}, err
	}
	return BudgetLendResult{Since: loan.Since, Held: loan.Held, Life: loan.Life.Milliseconds(), Short: loan.Short}, nil
}
