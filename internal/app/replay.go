package app

import (
	"sync/atomic"

	"github.com/aibridge/aibridge/internal/store"
)

// A replayTable lets a part that is made after the store was loaded follow a
// table: it is told first what is there already.
type replayTable[T any] struct {
	*store.Table[T]
	follower atomic.Pointer[func(key string, old, new *T)]
}

func newReplayTable[T any](t *store.Table[T]) *replayTable[T] {
	r := &replayTable[T]{Table: t}
	t.OnChange(func(key string, old, new *T) {
		if f := r.follower.Load(); f != nil {
			(*f)(key, old, new)
		}
	})
	return r
}

// OnChange has f told what is there and what changes from then on. It comes
// before anything writes to the table.
func (r *replayTable[T]) OnChange(f func(key string, old, new *T)) {
	for key, value := range r.All() {
		f(key, nil, value)
	}
	r.follower.Store(&f)
}
