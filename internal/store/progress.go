package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A progress counts the steps of work that may take long, but must not stand still.
type progress struct{ steps atomic.Uint64 }

// step notes progress.
func (p *progress) step() { p.steps.Add(1) }

// A stalledError is the error of work without progress for too long.
type stalledError struct {
	steps uint64
	limit time.Duration
}

func (e *stalledError) Error() string {
	return fmt.Sprintf("nothing came for %v, after %d messages; does NATS work, and its disk?", e.limit, e.steps)
}

// watch returns a context that ends with ctx, and with a stalledError as its
// cause once no step was made for the limit. The function ends it.
func (p *progress) watch(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	tick := time.NewTicker(max(limit/20, time.Millisecond))
	go func() {
		defer tick.Stop()
		seen, since := p.steps.Load(), time.Now()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if now := p.steps.Load(); now != seen {
				seen, since = now, time.Now()
			} else if time.Since(since) >= limit {
				cancel(&stalledError{seen, limit})
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
