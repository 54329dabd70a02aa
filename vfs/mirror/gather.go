package mirror

import "sync"

// Bounds of one batch.
const (
	batchFiles = 256
	batchBytes = 4 << 20
	batchOne   = 32 << 10 // larger files travel alone
)

// batchesAtOnce bounds the batches of one kind under way.
const batchesAtOnce = 2

// A gathering hands small things on together.
type gathering[T any] struct {
	carry func([]T) // called by several goroutines

	mu      sync.Mutex
	waiting []T
	bytes   int64
	slots   chan struct{}
	under   sync.WaitGroup
}

func gather[T any](carry func([]T)) *gathering[T] {
	return &gathering[T]{carry: carry, slots: make(chan struct{}, batchesAtOnce)}
}

// add takes a thing of that many bytes. It waits while enough is under way.
func (g *gathering[T]) add(thing T, size int64) {
	g.mu.Lock()
	g.waiting = append(g.waiting, thing)
	g.bytes += size
	full := len(g.waiting) >= batchFiles || g.bytes >= batchBytes
	g.mu.Unlock()
	if full {
		g.handOn()
	}
}

// flush hands on the rest and waits for everything.
func (g *gathering[T]) flush() {
	g.handOn()
	g.under.Wait()
}

func (g *gathering[T]) handOn() {
	g.mu.Lock()
	list := g.waiting
	g.waiting, g.bytes = nil, 0
	g.mu.Unlock()
	if len(list) == 0 {
		return
	}
	g.slots <- struct{}{}
	g.under.Go(func() {
		defer func() { <-g.slots }()
		g.carry(list)
	})
}
