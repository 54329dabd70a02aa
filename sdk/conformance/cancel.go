package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func cancelClauses() []clause {
	const where = "docs/protocol.md#an-agents-side-of-a-call"
	return []clause{
		{name: "cancel/running", where: where, says: "task.cancel with the id of a call as task_id makes the agent stop; the caller gets 4013", run: stopsWhenCancelled},
		{name: "cancel/unknown", where: where, says: "a cancellation of what the agent does not know, or has done, changes nothing", run: survivesSenselessCancellations},
		{name: "deadline/running", where: "docs/protocol.md#request", says: "timeout is the time that is left from arrival: what is not done by then is stopped, with 4007 if it is answered", run: stopsAtTheDeadline},
	}
}

// cancel has the device stop working on a call.
func (s *stage) cancel(ctx context.Context, id string) error {
	_, err := s.send(ctx, request("task.cancel", fmt.Sprintf(`{"task_id":%q,"reason":"the caller hung up"}`, id)))
	return err
}

func stopsWhenCancelled(ctx context.Context, s *stage) error {
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
	if err := s.ended(ctx, x.id); err != nil {
		return fmt.Errorf("after task.cancel: %w", err)
	}
	return s.endedWith(ctx, x, protocol.Cancelled)
}

// endedWith accepts no response to a call, or one with a code.
func (s *stage) endedWith(ctx context.Context, x *exchange, code protocol.Code) error {
	if err := s.echo(ctx); err != nil { // what was on its way is here now
		return err
	}
	seen, _ := s.bridge.record.since(s.place)
	for i := range seen {
		if isResponse(x.id)(&seen[i]) {
			if e := seen[i].envelope.Response.Err; e == nil || e.Code != code {
				return fmt.Errorf("the call is answered with %s, not with %s", seen[i].payload, code)
			}
		}
	}
	return nil
}

func survivesSenselessCancellations(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("echo", `{"value":1}`))
	if err != nil {
		return err
	}
	var result any
	if err := x.result(ctx, &result); err != nil {
		return err
	}
	for _, params := range []string{`{}`, `{"task_id":7}`, `{"task_id":"` + protocol.NewID() + `"}`, `{"task_id":"` + x.id + `"}`} {
		if _, err := s.send(ctx, request("task.cancel", params)); err != nil {
			return err
		}
	}
	return s.echo(ctx)
}

func stopsAtTheDeadline(ctx context.Context, s *stage) error {
	r := invocation("slow", `{"ms":600000}`)
	r.Metadata.Timeout = 300 * time.Millisecond
	x, err := s.send(ctx, r)
	if err != nil {
		return err
	}
	if err := s.ended(ctx, x.id); err != nil {
		return fmt.Errorf("300 ms were left for the call: %w", err)
	}
	return s.endedWith(ctx, x, protocol.TimedOut)
}
