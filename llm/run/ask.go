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
	// askAgain is the number of times that a model is asked again that failed in passing.
	askAgain = 2
	// patience is for how long a run waits for its turn when too many ask.
	patience     = 5 * time.Minute
	longestPause = 10 * time.Second
	firstPause   = 500 * time.Millisecond
)

// Ask implements [loop.Hooks]: it asks the model, again if that may be better next
// time.
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

// crowded reports whether nothing is wrong but that too many ask at once.
func crowded(e *protocol.Error) bool {
	return e.Code == protocol.Busy || e.Code == protocol.LLMUnavailable && e.Details["reason"] == string(chat.Overloaded)
}

// passing reports whether the same question may be answered a little later.
func passing(e *protocol.Error) bool {
	switch e.Details["reason"] {
	case string(chat.RateLimited), string(chat.Unavailable), string(chat.Unreachable), string(chat.CutOff):
		return true
	}
	return e.Code == protocol.RateLimited
}

// llmFault says in the codes of workflows why there is no answer.
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
