package queue

import (
	"container/heap"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A line has the messages of a queue in one space.
type line struct {
	queue   *Queue
	space   protocol.SpaceID
	entries map[string]*entry // by key
	waiting order
	// large are messages that wait for a worker which takes packets of more than passed
	// bytes; passed is 0 without any. Those behind them do not wait for that.
	large  map[*entry]bool
	passed int
	values map[string]*value // by topic, where only the newest message of each waits

	in     load                   // entries
	coming map[string]reservation // of messages that are being stored, by key
	all    load                   // both
	of     map[string]load        // of each publisher
	room   *fair.Room             // of all lines, in which what the line has is counted
}

// A reservation is room for a message that is being stored.
type reservation struct {
	by   string
	load load
}

// A load is a number of messages, and their bytes.
type load struct{ messages, bytes int }

func (l load) plus(o load) load { return load{l.messages + o.messages, l.bytes + o.bytes} }

func (l load) negative() load { return load{-l.messages, -l.bytes} }

// holds reports whether what there is has room for more. What takes nothing more always
// has.
func (l load) holds(there, more load) bool {
	return (more.messages <= 0 || there.messages+more.messages <= l.messages) &&
		(more.bytes <= 0 || there.bytes+more.bytes <= l.bytes)
}

// add counts more of a publisher, or less.
func (l *line) add(by string, what load) {
	l.all = l.all.plus(what)
	if sum := l.of[by].plus(what); sum == (load{}) {
		delete(l.of, by)
	} else {
		l.of[by] = sum
	}
	l.room.Add(partyOf(by, l.space), int64(what.messages), int64(what.bytes))
}

// count counts an entry, or counts it no more.
func (l *line) count(e *entry, what load) {
	l.in = l.in.plus(what)
	l.add(e.by, what)
}

// reserve counts a message that is being stored.
func (l *line) reserve(key string, m *Message) {
	if l.coming == nil {
		l.coming = make(map[string]reservation)
	}
	l.release(key) // somebody else puts the same dead letter back
	own, _ := l.needs(m)
	l.coming[key] = reservation{m.By, own}
	l.add(m.By, own)
}

// release counts a message as one that is being stored no more: its entry is there, or
// there will be none.
func (l *line) release(key string) {
	if r, there := l.coming[key]; there {
		delete(l.coming, key)
		l.add(r.by, r.load.negative())
	}
}

// needs is what a message takes that is to come into the line, of the room of its
// publisher and of that of the queue: less if it takes the place of another one.
func (l *line) needs(m *Message) (own, all load) {
	own, all = load{1, m.size()}, load{1, m.size()}
	if !l.queue.LastValue {
		return own, all
	}
	if e := l.newest(m.Topic); e != nil {
		all = load{0, max(0, m.size()-e.size)}
		if e.by == m.By {
			own = all
		}
	}
	return own, all
}

// An entry is a message of a line.
type entry struct {
	key      string
	topic    string // where only the newest message of each topic waits
	at       int64
	came     int64 // the time at which it was published, which stays
	size     int
	packet   int    // size of its packet, at most
	by       string // its publisher
	with     string // the process that has it, "" for none
	lent     bool   // a client here has it, or is about to
	queued   bool   // in waiting, at this place
	place    int
	outdated bool // not counted: a newer message of its topic has come
}

// older reports whether an entry was published before another one.
func (e *entry) older(o *entry) bool { return e.came < o.came || e.came == o.came && e.key < o.key }

// before reports whether an entry is given out before another one.
func (e *entry) before(o *entry) bool { return e.at < o.at || e.at == o.at && e.key < o.key }

// put takes in what the record of a message says by now.
func (l *line) put(key string, m *Message) {
	e := l.entries[key]
	fresh := e == nil
	if fresh {
		l.release(key)
		e = &entry{key: key, at: m.At, came: m.came()}
		l.entries[key] = e
	} else if !e.outdated {
		l.count(e, load{-1, -e.size})
	}
	e.size, e.packet, e.by, e.with = m.size(), m.packet(), m.By, m.With
	if !e.outdated {
		l.count(e, load{1, e.size})
	}
	if e.at != m.At { // it has been elsewhere, and come again
		e.lent, e.at = false, m.At
		delete(l.large, e)
		if e.queued {
			heap.Fix(&l.waiting, e.place)
		}
	}
	if fresh && l.queue.LastValue {
		e.topic = m.Topic
		l.enter(e)
	}
	if e.with == "" && !e.lent {
		l.enqueue(e)
	}
}

// enqueue has a message wait to be given out.
func (l *line) enqueue(e *entry) {
	if !e.queued && !l.large[e] && !l.held(e) {
		e.queued = true
		heap.Push(&l.waiting, e)
	}
}

// withdraw has a message wait to be given out no more.
func (l *line) withdraw(e *entry) {
	if e.queued {
		heap.Remove(&l.waiting, e.place)
		e.queued = false
	}
	delete(l.large, e)
}

func (l *line) remove(key string) {
	e := l.entries[key]
	if e == nil {
		return
	}
	if !e.outdated {
		l.count(e, load{-1, -e.size})
	}
	delete(l.entries, key)
	l.withdraw(e)
	if l.queue.LastValue {
		l.leave(e)
	}
}

// next takes the first message that nobody has, and whose packet is no larger than
// largest, off those that wait; nil if there is none.
func (l *line) next(largest int) *entry {
	if largest > l.passed && l.passed > 0 {
		aside := l.large
		l.large, l.passed = nil, 0
		for e := range aside {
			l.enqueue(e)
		}
	}
	for len(l.waiting) > 0 {
		e := heap.Pop(&l.waiting).(*entry)
		e.queued = false
		switch {
		case e.with != "" || e.lent || l.held(e):
		case e.packet > largest:
			l.putAside(e, largest)
		default:
			e.lent = true
			return e
		}
	}
	return nil
}

// first is the time at which the message came that waits longest, in nanoseconds of Unix
// time, 0 if none waits.
func (l *line) first() (at int64) {
	for len(l.waiting) > 0 {
		e := l.waiting[0]
		if e.with == "" && !e.lent && !l.held(e) {
			at = e.at
			break
		}
		heap.Pop(&l.waiting)
		e.queued = false
	}
	for e := range l.large {
		if at == 0 || e.at < at {
			at = e.at
		}
	}
	return at
}

// putAside has a message wait for a worker that takes packets of more than largest bytes.
func (l *line) putAside(e *entry, largest int) {
	if l.large == nil {
		l.large = make(map[*entry]bool)
	}
	l.large[e] = true
	if l.passed == 0 || largest < l.passed {
		l.passed = largest
	}
}

// An order is a heap of entries, those that came first in front.
type order []*entry

func (o order) Len() int           { return len(o) }
func (o order) Less(i, j int) bool { return o[i].before(o[j]) }
func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push implements [heap.Interface].
func (o *order) Push(x any) {
	e := x.(*entry)
	e.place = len(*o)
	*o = append(*o, e)
}

// Pop implements [heap.Interface].
func (o *order) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return e
}
