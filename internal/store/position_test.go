package store

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestWaitersAreWokenWhenTheirRevisionIsReached(t *testing.T) {
	var p position
	const count = 1000
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			revision := uint64(count - i)
			if err := p.wait(context.Background(), revision); err != nil {
				t.Error(err)
			}
			if at := p.at.Load(); at < revision {
				t.Errorf("woken at %d, waited for %d", at, revision)
			}
		})
	}
	for i := range uint64(count / 3) { // in steps, as revisions of others come between
		p.advance(3*i + 2)
	}
	p.advance(count)
	wg.Wait()
	if p.waiting.Load() != 0 || len(p.waiters) != 0 {
		t.Errorf("%d waiting, %d in the heap", p.waiting.Load(), len(p.waiters))
	}
}

func TestAWaiterThatGivesUpIsForgotten(t *testing.T) {
	var p position
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("wait = %v", err)
	}
	if p.waiting.Load() != 0 || len(p.waiters) != 0 {
		t.Errorf("%d waiting, %d in the heap", p.waiting.Load(), len(p.waiters))
	}
}
