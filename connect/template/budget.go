package template

import "errors"

// A Budget bounds the cost of evaluating templates, in steps: each part of an
// expression is one, and so are every 64 bytes or items that it yields. Several
// evaluations may share one, one after the other.
type Budget struct{ left int }

// NewBudget is a budget of so many steps.
func NewBudget(steps int) *Budget { return &Budget{left: steps} }

// Left are the steps that are left, 0 of a budget that is used up.
func (b *Budget) Left() int { return max(b.left, 0) }

const (
	// MaxSteps bounds an evaluation that shares no budget.
	MaxSteps = 100_000

	bytesPerStep = 64
)

// errTooMuch ends an evaluation whose budget is used up.
var errTooMuch = errors.New("evaluating it takes too many steps")

// spend takes the steps for a value that was made.
func (b *Budget) spend(made any) error {
	switch made := made.(type) {
	case string:
		return b.take(1 + len(made)/bytesPerStep)
	case []any:
		return b.take(1 + len(made)/bytesPerStep)
	case map[string]any:
		return b.take(1 + len(made)/bytesPerStep)
	}
	return b.take(1)
}

func (b *Budget) take(steps int) error {
	if b.left -= steps; b.left < 0 {
		return errTooMuch
	}
	return nil
}
