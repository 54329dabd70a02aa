package rollout

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// A Question asks operators whether the rollout may go on after the canary.
type Question struct {
	ID      string // the same however often it is asked
	Rollout *Rollout
	Counts  Counts
}

// An Answer is the outcome of a question.
type Answer struct {
	Decided  bool // no decision is awaited any more
	Approved bool
	Reason   string // why not
}

// An Approver asks operators to approve.
type Approver interface {
	// Ask asks a question, once for each id.
	Ask(ctx context.Context, q Question) error
	// Answer is the outcome of a question.
	Answer(id string) Answer
	// Passed notes that the approved step has been taken: all other members are asked.
	Passed(ctx context.Context, id string) error
	// Withdraw takes a question back whose answer is no longer needed.
	Withdraw(ctx context.Context, id, why string) error
}

// nobody is an [Approver] that refuses every question.
type nobody struct{}

func (nobody) Ask(context.Context, Question) error {
	return protocol.Errorf(protocol.InvalidState, "nobody approves of anything here")
}
func (nobody) Answer(string) Answer                           { return Answer{} }
func (nobody) Passed(context.Context, string) error           { return nil }
func (nobody) Withdraw(context.Context, string, string) error { return nil }
