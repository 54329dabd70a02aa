package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func connectionClauses() []clause {
	const presence, call = "docs/protocol.md#presence", "docs/protocol.md#an-agents-side-of-a-call"
	return []clause{
		{name: "reconnect/idle", where: presence, says: "after a lost connection the agent connects, subscribes and registers again by itself", run: reconnects(func(s *stage) { s.bridge.proxy.cut() })},
		{name: "reconnect/refused", where: presence, says: "it tries again when the bridge hangs up before, or after, CONNECT", run: reconnects(func(s *stage) { s.bridge.proxy.cut(closeAtOnce, closeConnect, closeConnect) })},
		{name: "reconnect/subscribe", where: presence, says: "it tries again when the connection is lost with SUBSCRIBE", run: reconnects(cutAtSubscribe)},
		{name: "reconnect/register", where: presence, says: "it tries again when the connection is lost with the answer to agent.register", run: reconnects(cutAtRegistration)},
		{name: "reconnect/kicked", where: presence, says: "it connects again when the bridge ends the connection with DISCONNECT (0x8B, shutting down)", run: reconnects(kick)},
		{name: "reconnect/pauses", where: "docs/protocol.md#codes", says: "attempts to connect are made with growing pauses: not more than 50 in the first two seconds", run: pausesBetweenAttempts},
		{name: "reconnect/answer", where: call, says: "the answer to a call that the connection was lost in comes over the next one, and the call runs once", run: answersOverTheNextConnection},
		{name: "reconnect/progress", where: call, says: "lost events end nothing: a call with progress is answered over the next connection", run: keepsWorkingWithoutAConnection},
		{name: "reconnect/cancel", where: call, says: "a call can be cancelled, and asked for, over the next connection", run: cancelsOverTheNextConnection},
		{name: "reconnect/repeat", where: call, says: "a request that comes again over the next connection does not run again", run: remembersOverConnections},
	}
}

func cutAtSubscribe(s *stage) {
	s.bridge.set(func(b *bridge) { b.onSubscribe = func() { b.proxy.cut() } })
	s.bridge.proxy.cut()
}

func cutAtRegistration(s *stage) {
	s.bridge.next("agent.register", reply{cut: true}, reply{cut: true})
	s.bridge.proxy.cut()
}

func kick(s *stage) {
	for c := range s.bridge.broker.Clients() {
		s.bridge.broker.End(c, 0x8B, "shutting down")
	}
}

// reconnects disturbs the connection, and expects everything to stand again.
func reconnects(disturb func(*stage)) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		place := s.bridge.record.here()
		disturb(s)
		if err := s.serving(ctx, place); err != nil {
			return fmt.Errorf("after the connection was lost: %w", err)
		}
		return s.echo(ctx)
	}
}

func pausesBetweenAttempts(ctx context.Context, s *stage) error {
	place := s.bridge.record.here()
	s.bridge.proxy.deny(true)
	defer s.bridge.proxy.deny(false)
	s.bridge.proxy.cut()
	before := s.bridge.proxy.attempts()
	select {
	case <-time.After(2 * time.Second): // a slow machine makes fewer attempts
	case <-ctx.Done():
		return ctx.Err()
	}
	if n := s.bridge.proxy.attempts() - before; n > 50 {
		return fmt.Errorf("it tried to connect %d times in two seconds", n)
	}
	s.bridge.proxy.deny(false)
	if err := s.serving(ctx, place); err != nil {
		return err
	}
	return s.echo(ctx)
}

func answersOverTheNextConnection(ctx context.Context, s *stage) error {
	before, err := s.count(ctx)
	if err != nil {
		return err
	}
	// The call ends while there is no connection, or over the next one; on a slow
	// machine before it is lost.
	x, err := s.send(ctx, invocation("slow", `{"ms":500}`))
	if err != nil {
		return err
	}
	if err := s.arrived(ctx, x.id); err != nil {
		return err
	}
	s.bridge.proxy.cut()
	var result any
	if err := x.result(ctx, &result); err != nil {
		return fmt.Errorf("the connection was lost while it was at work: %w", err)
	}
	after, err := s.count(ctx)
	if err == nil && after != before+1 {
		err = fmt.Errorf("count was %d and is %d", before, after)
	}
	return err
}

func keepsWorkingWithoutAConnection(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("progress", `{"steps":5,"ms":100}`))
	if err != nil {
		return err
	}
	if _, _, err := s.await(ctx, s.place, "tell progress", isEvent(x.id, "task.progress")); err != nil {
		return err
	}
	s.bridge.proxy.cut()
	var result any
	return x.result(ctx, &result)
}

func cancelsOverTheNextConnection(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("slow", `{"ms":600000}`))
	if err != nil {
		return err
	}
	if err := s.running(ctx, x.id); err != nil {
		return err
	}
	place := s.bridge.record.here()
	s.bridge.proxy.cut()
	if err := s.serving(ctx, place); err != nil {
		return err
	}
	if err := s.running(ctx, x.id); err != nil {
		return fmt.Errorf("after the connection was lost: %w", err)
	}
	if err := s.cancel(ctx, x.id); err != nil {
		return err
	}
	if err := s.ended(ctx, x.id); err != nil {
		return err
	}
	return s.endedWith(ctx, x, protocol.Cancelled)
}

func remembersOverConnections(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("count", `{}`))
	if err != nil {
		return err
	}
	var first, again struct {
		Count int `json:"count"`
	}
	if err := x.result(ctx, &first); err != nil {
		return err
	}
	place := s.bridge.record.here()
	s.bridge.proxy.cut()
	if err := s.serving(ctx, place); err != nil {
		return err
	}
	if err := x.again(ctx); err != nil {
		return err
	}
	if err := x.result(ctx, &again); err != nil {
		return err
	}
	after, err := s.count(ctx)
	if err == nil && (again != first || after != first.Count+1) {
		err = fmt.Errorf("count is %d, %d for the repeat and %d after it", first.Count, again.Count, after)
	}
	return err
}
