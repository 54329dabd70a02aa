package store

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
)

// A position is the place of the view in the stream, and the waiters for later ones.
type position struct {
	at      atomic.Uint64
	waiting atomic.Int64

	mu      sync.Mutex
	waiters waiterHeap
}

// wait returns when the position is at revision or beyond, or with ctx's
// error.
func (p *position) wait(ctx context.Context, revision uint64) error {
	if p.at.Load() >= revision {
		return nil
	}
	w := &waiter{revision: revision, reached: make(chan struct{})}
	p.mu.Lock()
	p.waiting.Add(1) // before looking again: advance looks here after it moved
	if p.at.Load() >= revision {
		p.waiting.Add(-1)
		p.mu.Unlock()
		return nil
	}
	heap.Push(&p.waiters, w)
	p.mu.Unlock()

	select {
	case <-w.reached:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.index < 0 { // reached meanwhile
		return nil
	}
	heap.Remove(&p.waiters, w.index)
	p.waiting.Add(-1)
	return ctx.Err()
}

// advance moves the position and wakes its waiters.
func (p *position) advance(revision uint64) {
	p.at.Store(revision)
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiters) > 0 && p.waiters[0].revision <= revision {
		close(heap.Pop(&p.waiters).(*waiter).reached)
		p.waiting.Add(-1)
	}
}

type waiter struct {
	revision uint64
	reached  chan struct{}
	index    int // in the heap, -1 outside
}

// waiterHeap has the lowest revision first.
type waiterHeap []*waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].revision < h[j].revision }

func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	w.index = -1
	return w
}
