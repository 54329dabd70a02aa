package queue

import (
	"container/heap"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// A line has the messages of a queue in one space.
type line struct {
	queue   *Queue
	space   protocol.SpaceID
	entries map[string]*entry // by key
	bytes   int
	waiting order
}

// An entry is a message of a line.
type entry struct {
	key    string
	at     int64
	size   int
	with   string // the process that has it, "" for none
	lent   bool   // a client here has it, or is about to
	queued bool   // in waiting
}

// put takes in what the record of a message says by now.
func (l *line) put(key string, m *Message) {
	e := l.entries[key]
	if e == nil {
		e = &entry{key: key}
		l.entries[key] = e
	}
	l.bytes += m.size() - e.size
	e.size, e.with = m.size(), m.With
	if e.at != m.At {
		e.lent = false // it is another message: the newest of its topic
		if e.queued {
			l.waiting = slices.DeleteFunc(l.waiting, func(o *entry) bool { return o == e })
			heap.Init(&l.waiting)
			e.queued = false
		}
		e.at = m.At
	}
	if e.with == "" && !e.lent {
		l.enqueue(e)
	}
}

func (l *line) enqueue(e *entry) {
	if !e.queued {
		e.queued = true
		heap.Push(&l.waiting, e)
	}
}

func (l *line) remove(key string) {
	if e := l.entries[key]; e != nil {
		l.bytes -= e.size
		delete(l.entries, key)
		e.lent = true // so that nobody is given it who finds it waiting
	}
}

// next takes the first message that nobody has off those that wait, nil if there is none.
func (l *line) next() *entry {
	for len(l.waiting) > 0 {
		e := heap.Pop(&l.waiting).(*entry)
		e.queued = false
		if e.with == "" && !e.lent {
			e.lent = true
			return e
		}
	}
	return nil
}

// An order is a heap of entries, those that came first in front.
type order []*entry

func (o order) Len() int { return len(o) }
func (o order) Less(i, j int) bool {
	return o[i].at < o[j].at || o[i].at == o[j].at && o[i].key < o[j].key
}
func (o order) Swap(i, j int) { o[i], o[j] = o[j], o[i] }
func (o *order) Push(x any)   { *o = append(*o, x.(*entry)) }

// Pop implements [heap.Interface].
func (o *order) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return e
}
