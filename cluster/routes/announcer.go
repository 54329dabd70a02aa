package routes

import (
	"sync"

	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A Subscription is a subscription of a client of a bridge.
type Subscription struct {
	Space  protocol.SpaceID // of the client
	Every  bool             // the client receives messages of all spaces
	Group  string           // name of the group of a shared subscription, "" for others
	Filter string           // without $share/group/
}

// An entry is a filter, or a group with its filter, whose subscribers are counted.
type entry struct {
	literal uint64 // or, with wildcards:
	space   protocol.SpaceID
	filter  string
	group   uint64 // 0 for subscriptions of clients' own
}

// mostInBatch is the greatest number of changes in a batch, bytesInBatch the greatest
// size of their texts.
const (
	mostInBatch  = 4 << 10
	bytesInBatch = 32 << 10
)

// An Announcer counts the subscriptions of the clients of a bridge, and derives the
// announcements to the other bridges from them. It is safe for concurrent use.
type Announcer struct {
	key   *Key
	epoch uint64

	mu       sync.Mutex
	literals map[uint64]uint32 // subscribers by the hash of a filter without wildcards
	others   map[entry]uint32  // of filters with wildcards, and of groups
	// before has the entries with unannounced changes, and their number of subscribers
	// as last announced.
	before map[entry]uint32
	seq    uint64
	sum    uint64 // of all announced entries
}

// NewAnnouncer returns the announcer of a process with the given epoch.
func NewAnnouncer(key *Key, epoch uint64) *Announcer {
	return &Announcer{
		key: key, epoch: epoch,
		literals: make(map[uint64]uint32), others: make(map[entry]uint32), before: make(map[entry]uint32),
	}
}

// Add counts a subscription.
func (a *Announcer) Add(s Subscription) { a.count(s, 1) }

// Remove no longer counts one that was added.
func (a *Announcer) Remove(s Subscription) { a.count(s, -1) }

func (a *Announcer) count(s Subscription, by int) {
	e := entry{space: s.Space, filter: s.Filter}
	if s.Group != "" {
		e.group = a.key.group(s.Space, s.Group, s.Filter)
	}
	wild := topic.HasWildcard(s.Filter)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.countIn(e, wild, by)
	if s.Every {
		e.space = EverySpace
		a.countIn(e, wild, by)
	}
}

func (a *Announcer) countIn(e entry, wild bool, by int) {
	if !wild {
		e = entry{literal: a.key.filter(e.space, e.filter), group: e.group}
	}
	was := a.members(&e)
	if _, noted := a.before[e]; !noted && (e.group != 0 || was == 0 || was+uint32(by) == 0) {
		a.before[e] = was
	}
	a.set(&e, uint32(int(was)+by))
}

// members is the number of subscribers that an entry has.
func (a *Announcer) members(e *entry) uint32 {
	if e.filter == "" && e.group == 0 {
		return a.literals[e.literal]
	}
	return a.others[*e]
}

func (a *Announcer) set(e *entry, members uint32) {
	switch plain := e.filter == "" && e.group == 0; {
	case plain && members == 0:
		delete(a.literals, e.literal)
	case plain:
		a.literals[e.literal] = members
	case members == 0:
		delete(a.others, *e)
	default:
		a.others[*e] = members
	}
}

// Pending reports whether there are unannounced changes.
func (a *Announcer) Pending() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.before) > 0
}

// Cut returns the changes since the last call as batches and, on request, a snapshot of
// everything announced including these changes.
func (a *Announcer) Cut(withSnapshot bool) (changes, snapshot []Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changes = a.changes()
	if withSnapshot {
		snapshot = a.snapshot()
	}
	return changes, snapshot
}

// Check returns a batch without changes, by whose checksum the other bridges verify
// their tables.
func (a *Announcer) Check() Batch {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Batch{Epoch: a.epoch, Seq: a.seq, Sum: a.sum}
}

func (a *Announcer) changes() []Batch {
	var w batcher
	for e, was := range a.before {
		now := a.members(&e)
		if e.group == 0 {
			was, now = min(was, 1), min(now, 1)
		}
		if was == now {
			continue
		}
		if !w.open {
			a.seq++
			w.begin(Batch{Epoch: a.epoch, Seq: a.seq})
		}
		if was > 0 {
			a.sum -= a.key.sum(&e, was)
		}
		if now > 0 {
			a.sum += a.key.sum(&e, now)
		}
		w.add(&e, now)
		w.batch().Sum = a.sum
	}
	clear(a.before)
	return w.all
}

func (a *Announcer) snapshot() []Batch {
	var w batcher
	next := func() {
		if !w.open {
			w.begin(Batch{Epoch: a.epoch, Seq: a.seq, Snapshot: true, Part: uint32(len(w.all))})
		}
	}
	next()
	for hash := range a.literals {
		next()
		w.add(&entry{literal: hash}, 1)
	}
	for e, members := range a.others {
		next()
		if e.group == 0 {
			members = 1
		}
		w.add(&e, members)
	}
	w.batch().Last, w.batch().Sum = true, a.sum
	return w.all
}

// A batcher fills batches one after the other.
type batcher struct {
	all   []Batch
	open  bool // the last one takes more
	count int  // changes in it
	bytes int  // of their texts
}

func (w *batcher) begin(b Batch) {
	w.all = append(w.all, b)
	w.open, w.count, w.bytes = true, 0, 0
}

func (w *batcher) batch() *Batch { return &w.all[len(w.all)-1] }

// add adds the present number of members of an entry to the batches.
func (w *batcher) add(e *entry, members uint32) {
	b := w.batch()
	switch {
	case e.group != 0:
		b.Groups = append(b.Groups, GroupChange{e.group, members, e.literal, e.space, e.filter})
	case e.filter != "":
		b.Wild = append(b.Wild, WildChange{members == 0, e.space, e.filter})
	case members == 0:
		b.Drop = append(b.Drop, e.literal)
	default:
		b.Add = append(b.Add, e.literal)
	}
	w.count++
	w.bytes += len(e.space) + len(e.filter)
	w.open = w.count < mostInBatch && w.bytes < bytesInBatch
}
