package delayed

import (
	"container/heap"
	"slices"

	"github.com/aibridge/aibridge/internal/fair"
)

// An item is a message in a [queue].
type item struct {
	due int64
	key string
}

// A queue has first what is due first, and of one moment what came first.
type queue []item

// add reports whether the item is the first now.
func (q *queue) add(i item) (first bool) {
	heap.Push(q, i)
	return (*q)[0] == i
}

func (q *queue) take() item { return heap.Pop(q).(item) }

// keep drops what wanted is false of.
func (q *queue) keep(wanted func(item) bool) {
	*q = slices.DeleteFunc(*q, func(i item) bool { return !wanted(i) })
	heap.Init(q)
}

// Len implements [heap.Interface].
func (q queue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q queue) Less(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].key < q[j].key
}

// Swap implements [heap.Interface].
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements [heap.Interface].
func (q *queue) Push(x any) { *q = append(*q, x.(item)) }

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = item{}
	*q = (*q)[:last]
	return x
}

// A load is a number of messages, and their bytes.
type load struct{ messages, bytes int64 }

func (l load) within(messages, bytes int64) bool { return l.messages <= messages && l.bytes <= bytes }

// A room counts what waits, by key.
type room struct {
	held        map[string]holding
	all         load
	byPrincipal map[string]load
	bySpace     map[string]load
}

type holding struct {
	who  fair.Party
	size int64
}

func newRoom() *room {
	return &room{held: map[string]holding{}, byPrincipal: map[string]load{}, bySpace: map[string]load{}}
}

// fits reports whether a party may have one more message.
func (r *room) fits(who fair.Party, size int64) bool {
	ownMessages, spaceMessages := fair.Share(mostMessages, who)
	ownBytes, spaceBytes := fair.Share(mostBytes, who)
	more := func(l load) load { return load{l.messages + 1, l.bytes + size} }
	return more(r.all).within(mostMessages, mostBytes) &&
		more(r.byPrincipal[who.Principal]).within(ownMessages, ownBytes) &&
		more(r.bySpace[who.Space]).within(spaceMessages, spaceBytes)
}

func (r *room) has(key string) bool {
	_, ok := r.held[key]
	return ok
}

// enter counts a message, unless it is counted already.
func (r *room) enter(key string, who fair.Party, size int64) {
	if _, ok := r.held[key]; ok {
		return
	}
	r.held[key] = holding{who, size}
	r.add(who, 1, size)
}

// leave counts a message no more.
func (r *room) leave(key string) {
	h, ok := r.held[key]
	if !ok {
		return
	}
	delete(r.held, key)
	r.add(h.who, -1, -h.size)
}

func (r *room) add(who fair.Party, messages, bytes int64) {
	r.all = load{r.all.messages + messages, r.all.bytes + bytes}
	count(r.byPrincipal, who.Principal, messages, bytes)
	count(r.bySpace, who.Space, messages, bytes)
}

func count(of map[string]load, name string, messages, bytes int64) {
	l := load{of[name].messages + messages, of[name].bytes + bytes}
	if l == (load{}) {
		delete(of, name)
		return
	}
	of[name] = l
}
