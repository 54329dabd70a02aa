package conformance

import (
	"context"
	"fmt"
	"time"
)

func restartClauses() []clause {
	return []clause{
		{
			name: "restart/honest", where: "docs/protocol.md#an-agents-side-of-a-call",
			says:  "after a crash the agent sends the answer that it still has, or says with 3001 and listening_ms that it listens anew",
			fresh: true, run: isHonestAfterACrash,
		},
		{
			name: "restart/once", where: "docs/protocol.md#request",
			says:  "a device with a memory that lasts runs a request once, although it was killed in between",
			fresh: true, run: runsOnceOverACrash,
		},
		{
			name: "restart/interrupted", where: "docs/protocol.md#codes",
			says:  "a device with a memory that lasts does not run work again that it was killed in: it answers the repeat with 4012",
			fresh: true, run: ownsUpToInterruption,
		},
	}
}

// restart kills the device and starts it again with the same memory.
func (s *stage) restart(ctx context.Context) (began time.Time, err error) {
	s.device.kill()
	place := s.bridge.record.here()
	began = time.Now()
	if err := s.start(); err != nil {
		return began, err
	}
	return began, s.serving(ctx, place)
}

func isHonestAfterACrash(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("count", `{}`))
	if err != nil {
		return err
	}
	first, err := x.response(ctx)
	if err != nil {
		return err
	}
	began, err := s.restart(ctx)
	if err != nil {
		return err
	}
	r, err := s.recall(ctx, x.id)
	switch {
	case err != nil:
		return err
	case r.state == "running":
		return fmt.Errorf("it says of a call that it has answered before it was killed that it is still at work on it")
	case r.state == "" && r.listening > time.Since(began):
		return fmt.Errorf("it says with listening_ms that it has forgotten nothing for %s, and was killed %s ago", r.listening, time.Since(began).Round(time.Millisecond))
	case r.state == "":
		return nil
	}
	again, err := x.response(ctx)
	if err == nil && !equal(again.Result, first.Result) {
		err = fmt.Errorf("the answer was %s and is %s", first.Result, again.Result)
	}
	return err
}

func runsOnceOverACrash(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("count", `{}`))
	if err != nil {
		return err
	}
	var first, again, next struct {
		Count int `json:"count"`
	}
	if err := x.result(ctx, &first); err != nil {
		return err
	}
	if err := s.remembers(ctx, x); err != nil {
		return err
	}
	if err := x.again(ctx); err != nil {
		return err
	}
	if err := x.result(ctx, &again); err != nil {
		return err
	}
	if again != first {
		return fmt.Errorf("the repeat is answered with count %d, the request was with %d", again.Count, first.Count)
	}
	// The count itself begins anew: it is in memory.
	if err := s.call(ctx, "count", `{}`, &next); err != nil {
		return err
	}
	if next.Count != 1 {
		return fmt.Errorf("the repeat ran: count is %d on its first call after the restart", next.Count)
	}
	return nil
}

// remembers restarts the device and skips the clause if it has no memory that
// lasts.
func (s *stage) remembers(ctx context.Context, x *exchange) error {
	if _, err := s.restart(ctx); err != nil {
		return err
	}
	r, err := s.recall(ctx, x.id)
	if err != nil {
		return err
	}
	if r.state == "" {
		return skip("the device keeps no answers in the folder AIBRIDGE_STATE")
	}
	_, err = x.response(ctx) // that comes with state done
	return err
}

func ownsUpToInterruption(ctx context.Context, s *stage) error {
	done, err := s.send(ctx, invocation("count", `{}`))
	if err != nil {
		return err
	}
	var result any
	if err := done.result(ctx, &result); err != nil {
		return err
	}
	x, err := s.send(ctx, invocation("slow", `{"ms":600000}`))
	if err != nil {
		return err
	}
	if _, _, err := s.await(ctx, s.place, "tell with task.accepted that a call of ten minutes has begun", isEvent(x.id, "task.accepted")); err != nil {
		return err
	}
	if err := s.remembers(ctx, done); err != nil {
		return err
	}
	if err := x.again(ctx); err != nil {
		return err
	}
	_, err = x.failure(ctx, "4012")
	return err
}
