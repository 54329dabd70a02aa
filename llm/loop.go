package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
)

// A Loop lets a model use tools: it asks, runs the tools that the model calls,
// tells it the results and asks again, until an answer calls none.
type Loop interface {
	// Run returns the last answer, with the usage, cost and time of all
	// rounds. Emit is nil for who wants no stream; what else happens on the
	// way are events of the call.
	Run(ctx context.Context, call *commands.Call, q LoopQuestion, emit func(chat.Event) error) (*Outcome, error)
}

// A LoopQuestion is a question whose model may use tools.
type LoopQuestion struct {
	Question
	Tools     []string // patterns of names, such as thermostat.*
	MaxRounds int      // 0 is the loop's own limit
}
