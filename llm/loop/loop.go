package loop

import (
	"context"
	"errors"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
)

// A Round is one question to the model and its answer.
type Round struct {
	Question model.Question // with the conversation so far, and the tools that are offered
	Box      *tools.Toolbox // the tools that the model may call
	Reply    *model.Reply   // nil if the model was not asked, or gave none
	Calls    []*chat.ToolCall
}

// Hooks are the variable part of a loop: the store of the conversation, the receivers
// of its events, and the conditions of its end. They are called in this order, one at a
// time, for every round. An error ends the loop at once.
type Hooks interface {
	// Begin prepares the question of a round. It fails if the principal may not go on.
	Begin(ctx context.Context, r *Round) error
	// Ask asks the model, and repeats a failed request where that may help.
	Ask(ctx context.Context, q *model.Question) (*model.Reply, error)
	// Heard stores the reply, or the error in place of one, before it has any effect,
	// and sets the calls of the round. A diary is written here.
	Heard(ctx context.Context, r *Round, err error) error
	// Act runs the calls and adds exactly one tool message for each to the
	// conversation, in their order. It reports whether the model is asked again.
	Act(ctx context.Context, r *Round) (again bool, err error)
}

// ErrRounds is the error of a loop whose model has called tools in every one of its
// rounds.
var ErrRounds = errors.New("the limit of rounds is reached")

// Drive runs the loop: it asks a model, runs its calls, and asks again, until an answer
// has no calls, the hooks end it, or the number of rounds is reached; 0 is no limit.
func Drive(ctx context.Context, h Hooks, rounds int) error {
	for n := 0; rounds <= 0 || n < rounds; n++ {
		var r Round
		if err := h.Begin(ctx, &r); err != nil {
			return err
		}
		reply, err := h.Ask(ctx, &r.Question)
		r.Reply = reply
		if err := h.Heard(ctx, &r, err); err != nil {
			return err
		}
		if len(r.Calls) == 0 {
			return nil
		}
		if again, err := h.Act(ctx, &r); err != nil || !again {
			return err
		}
	}
	return ErrRounds
}

// Offer returns the tools that a model is offered: all of a box or, if these are more
// than n, the n most relevant ones for the topic. Choose ranks them; nil ranks them by
// the words they share with the topic.
func Offer(ctx context.Context, box *tools.Toolbox, env tools.Environment, choose tools.Retriever, topic string, n int) []chat.Tool {
	switch {
	case len(box.Tools()) <= n:
		return box.ChatTools()
	case choose == nil:
		return tools.ChatTools(box.Relevant(topic, n))
	}
	return tools.ChatTools(choose.Relevant(ctx, env, box, topic, n))
}
