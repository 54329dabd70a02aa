package evidence

import (
	"hash/maphash"
	"runtime"
	"sync"
)

// A lane runs the callbacks of written claims. All claims of one principal are in one
// lane, where one goroutine at a time runs the callbacks, in the order of writing: so
// the requests of a caller continue in their order, whichever goroutine wrote them.
// Lanes run side by side.
type lane struct {
	mu      sync.Mutex
	telling bool // a goroutine will run the callbacks in the queue
	queue   []outcome
	spare   []outcome
}

// An outcome is a callback with its argument.
type outcome struct {
	done func(error)
	err  error
}

// lanes is the number of lanes: no more than goroutines read connections.
func lanes() int { return min(max(runtime.GOMAXPROCS(0)/2, 1), 16) }

var laneSeed = maphash.MakeSeed()

func (l *Log) laneOf(principal string) int {
	if len(l.lanes) == 1 {
		return 0
	}
	return int(maphash.String(laneSeed, principal) % uint64(len(l.lanes)))
}

// tell adds a callback to a lane.
func (b *batch) tell(lane int, done func(error)) {
	b.told[lane] = append(b.told[lane], done)
	b.tells++
}

// queueTold queues the callbacks of a batch. It is called in the order of writing, with
// l.mu locked.
func (l *Log) queueTold(b *batch, err error) {
	for i, list := range b.told {
		if len(list) == 0 {
			continue
		}
		lane := &l.lanes[i]
		lane.mu.Lock()
		for _, done := range list {
			lane.queue = append(lane.queue, outcome{done, err})
		}
		lane.mu.Unlock()
	}
}

// tell runs the callbacks of a batch. On its own goroutine it runs only those queued
// now, and leaves later ones to another, since a goroutine that flushes has connections
// to read.
func (l *Log) tell(b *batch) {
	for i, list := range b.told {
		lane := &l.lanes[i]
		if len(list) > 0 && lane.begin() && l.tellLane(lane) {
			go func() {
				for l.tellLane(lane) {
				}
			}()
		}
	}
}

// tellElsewhere is tell on goroutines of its own, for callers that hold locks.
func (l *Log) tellElsewhere(b *batch) {
	for i, list := range b.told {
		lane := &l.lanes[i]
		if len(list) > 0 && lane.begin() {
			go func() {
				for l.tellLane(lane) {
				}
			}()
		}
	}
}

// begin reports whether the caller is to run the callbacks in the lane.
func (n *lane) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.telling || len(n.queue) == 0 {
		return false
	}
	n.telling = true
	return true
}

// tellLane runs the callbacks in a lane and reports whether there are more by then. If
// not, no goroutine is running them any more.
func (l *Log) tellLane(n *lane) (more bool) {
	n.mu.Lock()
	queue := n.queue
	n.queue, n.spare = n.spare, nil
	n.mu.Unlock()
	for _, t := range queue {
		t.done(t.err)
	}
	l.calls.Add(-len(queue))
	clear(queue)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spare = queue[:0]
	n.telling = len(n.queue) > 0
	return n.telling
}
