package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// askAgain is the greatest number of repetitions of a question after a transient
	// failure.
	askAgain = 2
	// patience is the longest wait of a run while too many others ask.
	patience     = 5 * time.Minute
	longestPause = 10 * time.Second
	firstPause   = 500 * time.Millisecond
)

// Ask implements [loop.Hooks]: it asks the model, and repeats the question after a
// transient failure.
func (e *engine) Ask(ctx context.Context, q *model.Question) (*model.Reply, error) {
	id := turnID(e.turns)
	var emit func(chat.Event) error
	heard := false
	if e.stream {
		emit = func(ev chat.Event) error {
			if ev.Type == chat.TextDelta && ev.Text != "" {
				heard = true
				e.tell(eventDelta, deltaEvent{Message: id, Text: ev.Text})
			}
			return nil
		}
	}
	began := e.now()
	for n, pause := 0, firstPause; ; n, pause = n+1, min(2*pause, longestPause) {
		reply, err := e.asker.Ask(ctx, *q, emit)
		if err == nil && reply.Answer == nil {
			err = fault.Errorf(fault.LLMBadResponse, "the model gave no answer")
		}
		if err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		refusal := protocol.AsError(err)
		again := passing(refusal) && n < askAgain || crowded(refusal) && e.now().Sub(began) < patience
		if heard || !again {
			return nil, llmFault(err)
		}
		wait := min(max(pause, refusal.RetryAfter()), longestPause)
		if err := e.pause(ctx, wait+rand.N(wait/4+1)); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// crowded reports whether an error is only that of too many questions at once.
func crowded(e *protocol.Error) bool {
	return e.Code == protocol.Busy || e.Code == protocol.LLMUnavailable && e.Details["reason"] == string(chat.Overloaded)
}

// passing reports whether an error is transient, so that a repetition may succeed.
func passing(e *protocol.Error) bool {
	switch e.Details["reason"] {
	case string(chat.RateLimited), string(chat.Unavailable), string(chat.Unreachable), string(chat.CutOff):
		return true
	}
	return e.Code == protocol.RateLimited
}

// llmFault converts the error of a model to a fault of workflows.
func llmFault(err error) error {
	if f := new(fault.Error); errors.As(err, &f) {
		return f
	}
	e := protocol.AsError(err)
	reason, _ := e.Details["reason"].(string)
	code := fault.LLMHTTPError
	switch {
	case reason == string(chat.AuthFailed):
		code = fault.LLMAuthFailed
	case reason == string(chat.TimedOut), e.Code == protocol.TimedOut:
		code = fault.LLMTimeout
	case reason == string(chat.RateLimited), reason == string(chat.Overloaded),
		e.Code == protocol.RateLimited, e.Code == protocol.BudgetSpent, e.Code == protocol.Busy:
		code = fault.LLMRateLimited
	case reason == string(chat.BadResponse), reason == string(chat.CutOff):
		code = fault.LLMBadResponse
	}
	f := fault.Wrap(code, err, e.Message).With("bridge_code", string(e.Code))
	if reason != "" {
		f = f.With("reason", reason)
	}
	return f
}
