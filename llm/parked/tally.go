package parked

import (
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// A tally counts the tasks that have not ended, and their bytes. It follows the table.
type tally struct {
	mu     sync.Mutex
	spaces map[protocol.SpaceID]kept
	own    map[protocol.Party]kept
}

// kept is a number of tasks with their bytes.
type kept struct{ tasks, bytes int }

func newTally() *tally {
	return &tally{spaces: make(map[protocol.SpaceID]kept), own: make(map[protocol.Party]kept)}
}

func (t *tally) changed(old, now *Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(old, -1)
	t.count(now, 1)
}

func (t *tally) count(r *Record, n int) {
	if r == nil || r.State.Over() {
		return
	}
	t.add(r.Grant.Party(), n, n*r.bytes())
}

func (t *tally) add(party protocol.Party, tasks, bytes int) {
	add(t.spaces, party.Space, tasks, bytes)
	add(t.own, party, tasks, bytes)
}

func add[K comparable](to map[K]kept, key K, tasks, bytes int) {
	k := to[key]
	k.tasks, k.bytes = k.tasks+tasks, k.bytes+bytes
	if to[key] = k; k.tasks == 0 {
		delete(to, key)
	}
}

func (t *tally) total() (tasks, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.spaces {
		tasks, bytes = tasks+k.tasks, bytes+k.bytes
	}
	return tasks, bytes
}
