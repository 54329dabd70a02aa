package approval

import (
	"cmp"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// maxDeliveries is the greatest number of messages that wait for one webhook, or for
// the mail server. With several spaces one may have half of them.
const maxDeliveries = 1024

// A line is the queue of messages for one receiver. Spaces are served by turns, so that
// none waits behind all messages of another. Its user holds a lock.
type line[T any] struct {
	waiting []*T
	place   func(*T) place
	alone   bool // there is one space
	rounds  uint64
	served  map[protocol.SpaceID]uint64 // last round of each space
}

// A place is the space and the due time of a message.
type place struct {
	space protocol.SpaceID
	due   time.Time // zero at once
}

func newLine[T any](alone bool, of func(*T) place) line[T] {
	return line[T]{place: of, alone: alone, served: make(map[protocol.SpaceID]uint64)}
}

// add puts a message at the end, unless there is no room for it.
func (l *line[T]) add(m *T) (added bool) {
	most := maxDeliveries
	space := l.place(m).space
	if !l.alone {
		most /= 2
	}
	own := 0
	for _, w := range l.waiting {
		if l.place(w).space == space {
			own++
		}
	}
	if len(l.waiting) >= maxDeliveries || own >= most {
		return false
	}
	l.waiting = append(l.waiting, m)
	return true
}

// next is the message to deliver now, which stays in the line: of the space that was
// served longest ago, the one with the earliest due time. Without one, it returns the
// time until one is due.
func (l *line[T]) next(now time.Time) (m *T, wait time.Duration) {
	wait = time.Hour
	for _, w := range l.waiting {
		at := l.place(w)
		if left := at.due.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		if m == nil || l.before(at, l.place(m)) < 0 {
			m = w
		}
	}
	if m == nil {
		return nil, wait
	}
	l.rounds++
	l.served[l.place(m).space] = l.rounds
	return m, 0
}

func (l *line[T]) before(a, b place) int {
	return cmp.Or(cmp.Compare(l.served[a.space], l.served[b.space]), a.due.Compare(b.due))
}

// remove removes a message.
func (l *line[T]) remove(m *T) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *T) bool { return w == m })
	if len(l.waiting) == 0 {
		clear(l.served)
	}
}
