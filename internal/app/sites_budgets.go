package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
)

// centreBudgets is the centre whose budgets hold for the models of this bridge, nil for none.
func (m *modelParts) centreBudgets(s *state) *model.Centre {
	j := &s.config.Sites.Join
	if j.Name == "" || !j.Budgets.Hold {
		return nil
	}
	alone := j.Budgets.Alone
	return &model.Centre{
		Account: s.config.ID, Accounts: store.NewTable[model.Account](s.Store, "llmloan").Essential(),
		Alone: model.Budget{Window: cmp.Or(alone.Window, "day"), Tokens: alone.Tokens, Cost: alone.Cost, Requests: alone.Requests},
		Lend: func(ctx context.Context, d model.Demand) (model.Loan, error) {
			return m.borrow(ctx, s.promised.site.value(), llm.BudgetLendParams{
				Site: j.Name, Account: d.Account, Number: d.Number, Since: d.Since, Used: d.Used, Busy: d.Busy, Need: d.Need, Wish: d.Wish, Done: d.Done,
			})
		},
	}
}

// borrow asks the centre: over this bridge's connection, or that of another one of the cluster.
func (m *modelParts) borrow(ctx context.Context, joined *site.Site, p llm.BudgetLendParams) (model.Loan, error) {
	answer, err := joined.Borrow(ctx, p)
	if errors.Is(err, site.ErrElsewhere) && m.relay != nil {
		answer, err = borrowElsewhere(ctx, m.relay, p)
	}
	switch {
	case errors.Is(err, site.ErrElsewhere) || errors.Is(err, site.ErrUnreachable):
		return model.Loan{}, model.ErrUnreachable
	case err != nil:
		return model.Loan{}, err
	}
	var lent llm.BudgetLendResult
	if err := json.Unmarshal(answer, &lent); err != nil {
		return model.Loan{}, protocol.Wrap(protocol.Internal, err, "what the centre lends cannot be read")
	}
	return model.Loan{Since: lent.Since, Held: lent.Held, Life: time.Duration(lent.Life) * time.Millisecond, Short: lent.Short}, nil
}

// borrowing is the errand of asking the centre for a part of its budgets.
const borrowing = "llm.budget.lend"

// A borrowedElsewhere is the answer of the centre to a question of another bridge.
type borrowedElsewhere struct {
	Asked  bool            `json:"asked"` // by the connection of the bridge
	Result json.RawMessage `json:"result,omitempty"`
	Error  *borrowError    `json:"error,omitempty"`
}

type borrowError struct {
	Code    protocol.Code  `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// borrowFor has this bridge ask the centre for others of its cluster.
func borrowFor(s *state, shared *relaying) {
	if joined := s.promised.site.value(); joined != nil && shared != nil && joined.Budgets.Hold {
		shared.errands.does[borrowing] = func(ctx context.Context, with json.RawMessage) (any, error) {
			result, err := joined.Borrow(ctx, with)
			switch {
			case errors.Is(err, site.ErrElsewhere) || errors.Is(err, site.ErrUnreachable):
				return borrowedElsewhere{}, nil
			case err != nil:
				failed := protocol.AsError(err)
				return borrowedElsewhere{Asked: true, Error: &borrowError{failed.Code, failed.Message, failed.Details}}, nil
			}
			return borrowedElsewhere{Asked: true, Result: result}, nil
		}
	}
}

// borrowElsewhere has the bridge that is connected to the centre ask it.
func borrowElsewhere(ctx context.Context, shared *relaying, p llm.BudgetLendParams) (json.RawMessage, error) {
	heard, _ := haveAll[borrowedElsewhere](ctx, shared, borrowing, p)
	for _, answer := range heard {
		switch {
		case !answer.Asked:
		case answer.Error != nil:
			return nil, &protocol.Error{Code: answer.Error.Code, Message: answer.Error.Message, Details: answer.Error.Details}
		default:
			return answer.Result, nil
		}
	}
	return nil, site.ErrUnreachable
}
