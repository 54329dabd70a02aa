package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
)

func TestWhatMakesProgressIsNotGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var p progress
		ctx, cancel := p.watch(t.Context(), time.Minute)
		defer cancel()
		for range 100 {
			time.Sleep(50 * time.Second)
			p.step()
			if ctx.Err() != nil {
				t.Fatalf("given up: %v", context.Cause(ctx))
			}
		}
		time.Sleep(70 * time.Second)
		var stalled *stalledError
		if !errors.As(context.Cause(ctx), &stalled) || stalled.steps != 100 {
			t.Errorf("cause = %v, want that it stands still after 100", context.Cause(ctx))
		}
	})
}

func TestTheWatchOfProgressEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var p progress
		_, cancel := p.watch(t.Context(), time.Minute)
		cancel()
		synctest.Wait() // or the bubble would not end
	})
}
