package parked

import (
	"iter"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A queue holds the ready tasks until there are places for them. The cost of one round
// does not grow with the tasks behind the first of each party. It is for one goroutine.
type queue struct {
	known  map[protocol.TaskID]bool
	spaces map[string]map[fair.Party][]protocol.TaskID
}

func newQueue() *queue {
	return &queue{known: make(map[protocol.TaskID]bool), spaces: make(map[string]map[fair.Party][]protocol.TaskID)}
}

// has reports whether a task is in the queue.
func (q *queue) has(id protocol.TaskID) bool { return q.known[id] }

// add puts a task behind those of the same party.
func (q *queue) add(who fair.Party, id protocol.TaskID) {
	parties := q.spaces[who.Space]
	if parties == nil {
		parties = make(map[fair.Party][]protocol.TaskID)
		q.spaces[who.Space] = parties
	}
	parties[who] = append(parties[who], id)
	q.known[id] = true
}

// take removes and yields the tasks that there are places for. The receiver of a task
// releases its place.
func (q *queue) take(places *fair.Semaphore) iter.Seq2[fair.Party, protocol.TaskID] {
	return func(yield func(fair.Party, protocol.TaskID) bool) {
		for space, parties := range q.spaces {
			for who := range parties {
				if !q.takeOf(who, places, yield) {
					return
				}
				if !places.Free(fair.Party{Space: space}, 1) {
					break // the other parties of the space have no place either
				}
			}
			if len(parties) == 0 {
				delete(q.spaces, space)
			}
		}
	}
}

// takeOf removes and yields the tasks of one party that there are places for.
func (q *queue) takeOf(who fair.Party, places *fair.Semaphore, yield func(fair.Party, protocol.TaskID) bool) bool {
	parties := q.spaces[who.Space]
	for len(parties[who]) > 0 && places.TryAcquire(who, 1) == nil {
		id := parties[who][0]
		parties[who] = parties[who][1:]
		delete(q.known, id)
		if !yield(who, id) {
			return false
		}
	}
	if len(parties[who]) == 0 {
		delete(parties, who)
	}
	return true
}
