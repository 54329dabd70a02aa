package site

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// ErrUnreachable is the error of a question that the centre does not answer at the moment.
var ErrUnreachable = errors.New("the centre does not answer at the moment")

// ErrElsewhere is the error of a question at a bridge of a cluster that is not the one with the
// connection to the centre.
var ErrElsewhere = errors.New("another bridge is connected to the centre")

// Borrow asks the centre for a part of its budgets by llm.budget.lend, and returns the result.
// The error is that of the centre, [ErrUnreachable] or [ErrElsewhere].
func (s *Site) Borrow(ctx context.Context, params any) (json.RawMessage, error) {
	s.mu.Lock()
	centre, running := s.centre, s.running
	s.mu.Unlock()
	switch {
	case !running:
		return nil, ErrElsewhere
	case centre == nil || !centre.Connected():
		return nil, ErrUnreachable
	}
	result, err := client.Call[json.RawMessage](ctx, centre, "llm.budget.lend", params)
	s.metrics.borrowed(err)
	if passes(err) {
		return nil, ErrUnreachable
	}
	refused := err
	switch protocol.CodeOf(err) {
	case protocol.BudgetSpent, protocol.InvalidState: // an answer like any other
		refused = nil
	}
	s.complain("budgets", refused)
	return result, err
}
