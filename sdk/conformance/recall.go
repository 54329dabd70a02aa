package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

func recallClauses() []clause {
	const where = "docs/protocol.md#an-agents-side-of-a-call"
	const same = "docs/protocol.md#request"
	return []clause{
		{name: "repeat/done", where: same, says: "the same request again runs once; the repeat gets the stored answer", run: answersRepeats},
		{name: "repeat/running", where: same, says: "the same request again runs once; the repeat waits for the first answer", run: mergesRepeats},
		{name: "recall/done", where: where, says: "an agent that has the answer sends it again under the call's own id and answers task.get with state done", run: recallsAnswers},
		{name: "recall/running", where: where, says: "an agent still at work answers task.get with state running", run: recallsWork},
		{name: "recall/unknown", where: where, says: "an agent that does not know the call answers 3001 with details.listening_ms", run: ownsUpToForgetting},
		{name: "recall/malformed", where: where, says: "a question without task_id does no harm", run: survivesSenselessQuestions},
	}
}

func answersRepeats(ctx context.Context, s *stage) error {
	before, err := s.count(ctx)
	if err != nil {
		return err
	}
	x, err := s.send(ctx, invocation("count", `{}`))
	if err != nil {
		return err
	}
	var first struct {
		Count int `json:"count"`
	}
	if err := x.result(ctx, &first); err != nil {
		return err
	}
	for range 3 {
		if err := x.again(ctx); err != nil {
			return err
		}
		var repeated struct {
			Count int `json:"count"`
		}
		if err := x.result(ctx, &repeated); err != nil {
			return fmt.Errorf("the repeat of an answered request: %w", err)
		}
		if repeated != first {
			return fmt.Errorf("the repeat of an answered request is answered with count %d, the request was with %d", repeated.Count, first.Count)
		}
	}
	after, err := s.count(ctx)
	if err == nil && (first.Count != before+1 || after != before+2) {
		err = fmt.Errorf("a request that came four times ran %d times", after-before-1)
	}
	return err
}

func mergesRepeats(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("slow", `{"ms":600000}`))
	if err != nil {
		return err
	}
	if err := s.running(ctx, x.id); err != nil {
		return err
	}
	if err := x.again(ctx); err != nil {
		return err
	}
	if err := s.echo(ctx); err != nil {
		return err
	}
	if err := s.cancel(ctx, x.id); err != nil {
		return err
	}
	if err := s.ended(ctx, x.id); err != nil {
		return fmt.Errorf("a call that came twice and was cancelled once: %w", err)
	}
	return s.endedWith(ctx, x, protocol.Cancelled)
}

func recallsAnswers(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("count", `{}`))
	if err != nil {
		return err
	}
	first, err := x.response(ctx)
	if err != nil {
		return err
	}
	if first.Err != nil {
		return first.Err
	}
	r, err := s.recall(ctx, x.id)
	if err != nil {
		return err
	}
	if r.state != "done" {
		return fmt.Errorf("it answers task.get about a call that it has just answered with state %q", r.state)
	}
	again, err := x.response(ctx)
	if err != nil {
		return fmt.Errorf("task.get about an answered call: the answer does not come again: %w", err)
	}
	if again.Err != nil || !bytes.Equal(first.Result, again.Result) {
		return fmt.Errorf("the answer was %s and is %s %v after task.get", first.Result, again.Result, again.Err)
	}
	return nil
}

func recallsWork(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("slow", `{"ms":600000}`))
	if err != nil {
		return err
	}
	if err := s.running(ctx, x.id); err != nil {
		return err
	}
	if err := s.cancel(ctx, x.id); err != nil {
		return err
	}
	return s.ended(ctx, x.id)
}

func ownsUpToForgetting(ctx context.Context, s *stage) error {
	r, err := s.recall(ctx, protocol.NewID())
	if err == nil && r.state != "" {
		err = fmt.Errorf("it answers task.get about a call that never was with state %s", r.state)
	}
	return err
}

func survivesSenselessQuestions(ctx context.Context, s *stage) error {
	for _, params := range []string{`{}`, `{"task_id":7}`, `{"task_id":null}`} {
		x, err := s.send(ctx, request("task.get", params))
		if err != nil {
			return err
		}
		r, err := x.response(ctx)
		if err != nil {
			return err
		}
		if r.Err == nil {
			return fmt.Errorf("it answers task.get with %s with success: %s", params, r.Result)
		}
	}
	return s.echo(ctx)
}
