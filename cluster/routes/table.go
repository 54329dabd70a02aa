package routes

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// A Node is the id of a bridge.
type Node = string

var (
	// ErrGap reports that a bridge's announcements before a batch are missing: a
	// snapshot has to be requested.
	ErrGap = errors.New("routes: announcements are missing")
	// ErrDiffers reports that the table differs from the announcements of a bridge,
	// though no batch is missing. A snapshot repairs that too.
	ErrDiffers = errors.New("routes: the sum of what was announced differs")
	// ErrFull reports more announcing bridges than slots of a table.
	ErrFull = errors.New("routes: too many bridges")
)

// A Table has the subscriptions of the other bridges, by their announcements. It is
// safe for concurrent use.
type Table struct {
	key    *Key
	shards [shards]shard
	wild   wild
	epoch  atomic.Uint64          // moves with every change
	live   atomic.Pointer[[]Node] // by slot; "" for a slot that is not in effect

	mu    sync.Mutex
	nodes map[Node]*announced
	taken slots // in use, live or not
}

// An announced is the state of the announcements of a bridge.
type announced struct {
	epoch    uint64
	seq, sum uint64
	in       slot // 0: nothing yet
	growing  *growing
}

// A growing is an incomplete snapshot. Until its last part is received, the earlier
// announcements remain in effect.
type growing struct {
	epoch, seq, sum uint64
	parts           uint32
	in              slot
}

// NewTable returns an empty table.
func NewTable(key *Key) *Table {
	t := &Table{key: key, nodes: make(map[Node]*announced)}
	t.wild.clear()
	t.live.Store(new([]Node))
	return t
}

// Epoch moves whenever an answer of Find may be another.
func (t *Table) Epoch() uint64 { return t.epoch.Load() }

// A Found is where a publication has to go. It may be used again.
type Found struct {
	// Nodes have subscriptions of clients' own, each once, in no order.
	Nodes []Node
	// Groups are the groups of shared subscriptions, bridge by bridge, the
	// members of one group one after the other.
	Groups []Members

	slots   slots
	members []member
}

// Members are the members that a group has at a bridge.
type Members struct {
	Group uint64
	Node  Node
	Count uint32
}

// Find looks up the bridges with subscribers for a topic in any of the spaces: two at
// most, with [EverySpace] as the last.
func (t *Table) Find(topic string, into *Found, spaces ...protocol.SpaceID) {
	for {
		live := t.live.Load()
		t.collect(topic, into, spaces)
		if t.live.Load() == live { // otherwise a snapshot has replaced slots meanwhile
			into.resolve(*live)
			return
		}
	}
}

// collect finds the slots and the members of groups.
func (t *Table) collect(topic string, into *Found, spaces []protocol.SpaceID) {
	clear(into.slots)
	into.members = into.members[:0]
	for _, space := range spaces {
		hash := t.key.filter(space, topic)
		shard, cell := place(hash)
		t.shards[shard].find(cell, &into.slots)
		into.members = t.wild.find(space, hash, topic, &into.slots, into.members)
	}
}

// resolve names the bridges.
func (f *Found) resolve(live []Node) {
	f.Nodes, f.Groups = f.Nodes[:0], f.Groups[:0]
	for in := range f.slots.all() {
		if int(in) < len(live) && live[in] != "" {
			f.Nodes = append(f.Nodes, live[in])
		}
	}
	slices.SortFunc(f.members, compareMembers)
	for i, m := range f.members {
		if i > 0 && m.group == f.members[i-1].group && m.in == f.members[i-1].in {
			continue // found in its space, and in every space, where a part of it is
		}
		if int(m.in) < len(live) && live[m.in] != "" {
			f.Groups = append(f.Groups, Members{m.group, live[m.in], m.members})
		}
	}
}

// compareMembers puts the larger of two parts first.
func compareMembers(a, b member) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.in, b.in), cmp.Compare(b.members, a.members))
}

// Group is the name under which a bridge announces a group of shared
// subscriptions: of a space, on a filter.
func (t *Table) Group(space protocol.SpaceID, name, filter string) uint64 {
	return t.key.group(space, name, filter)
}

// Known reports whether the table has the announcements of a process of a bridge.
func (t *Table) Known(node Node, epoch uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.nodes[node]
	return a != nil && a.in != 0 && a.epoch == epoch
}

// Apply applies an announcement of a bridge. It returns [ErrGap] or [ErrDiffers] when a
// snapshot is needed. Batches that were applied already are ignored.
func (t *Table) Apply(node Node, b *Batch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.nodes[node]
	if a == nil {
		a = new(announced)
		t.nodes[node] = a
	}
	defer t.epoch.Add(1)
	if b.Snapshot {
		return t.grow(node, a, b)
	}
	check := len(b.Add)+len(b.Drop)+len(b.Wild)+len(b.Groups) == 0
	switch {
	case a.in == 0 || a.epoch != b.Epoch:
		return ErrGap
	case check && b.Seq == a.seq:
	case b.Seq <= a.seq:
		return nil
	case check || b.Seq != a.seq+1:
		return ErrGap
	}
	a.seq = b.Seq
	t.apply(b, a.in, &a.sum)
	if a.sum != b.Sum {
		return ErrDiffers
	}
	return nil
}

// grow adds a part of a snapshot, which takes effect with the last one.
func (t *Table) grow(node Node, a *announced, b *Batch) error {
	if b.Part == 0 {
		if a.growing != nil {
			t.free(a.growing.in)
			a.growing = nil
		}
		in, err := t.slot()
		if err != nil {
			return err
		}
		a.growing = &growing{epoch: b.Epoch, seq: b.Seq, in: in}
	}
	g := a.growing
	if g == nil || g.epoch != b.Epoch || g.seq != b.Seq || g.parts != b.Part {
		return ErrGap
	}
	g.parts++
	t.apply(b, g.in, &g.sum)
	if !b.Last {
		return nil
	}
	old := a.in
	a.epoch, a.seq, a.sum, a.in, a.growing = g.epoch, g.seq, g.sum, g.in, nil
	t.count(old, "", a.in, node)
	t.free(old)
	if a.sum != b.Sum {
		return ErrDiffers
	}
	return nil
}

// apply makes the changes of a batch in a slot, and updates the checksum of its
// entries.
func (t *Table) apply(b *Batch, in slot, sum *uint64) {
	for _, hash := range b.Drop {
		if shard, cell := place(hash); t.shards[shard].drop(cell, in) {
			*sum -= sumOfLiteral(hash)
		}
	}
	for _, hash := range b.Add {
		if shard, cell := place(hash); t.shards[shard].add(cell, in) {
			*sum += sumOfLiteral(hash)
		}
	}
	for i := range b.Wild {
		c := &b.Wild[i]
		e := entry{space: c.Space, filter: c.Filter}
		switch changed := t.wild.change(c, in); {
		case changed && c.Drop:
			*sum -= t.key.sum(&e, 1)
		case changed:
			*sum += t.key.sum(&e, 1)
		}
	}
	for i := range b.Groups {
		c := &b.Groups[i]
		e := entry{c.Literal, c.Space, c.Filter, c.Group}
		if before := t.wild.changeGroup(c, in); before > 0 {
			*sum -= t.key.sum(&e, before)
		}
		if c.Members > 0 {
			*sum += t.key.sum(&e, c.Members)
		}
	}
}

// Forget drops the announcements of a bridge that is gone.
func (t *Table) Forget(node Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.nodes[node]
	if a == nil {
		return
	}
	delete(t.nodes, node)
	t.count(a.in, "", 0, "")
	t.epoch.Add(1)
	t.free(a.in)
	if a.growing != nil {
		t.free(a.growing.in)
	}
}

// slot takes a free slot. mu is held.
func (t *Table) slot() (slot, error) {
	for i := slot(1); i <= maxSlot; i++ {
		if !t.taken.has(i) {
			t.taken.add(i)
			return i, nil
		}
	}
	return 0, ErrFull
}

// count puts two slots into effect for two bridges, or out of effect for "". The caller
// holds mu.
func (t *Table) count(one slot, oneNode Node, other slot, otherNode Node) {
	live := slices.Clone(*t.live.Load())
	for int(max(one, other)) >= len(live) {
		live = append(live, "")
	}
	live[one], live[other] = oneNode, otherNode
	live[0] = ""
	t.live.Store(&live)
}

// free sweeps a slot, which does not count any more. mu is held.
func (t *Table) free(in slot) {
	if in == 0 {
		return
	}
	for i := range t.shards {
		t.shards[i].sweep(in)
	}
	t.wild.sweep(in)
	t.taken.remove(in)
}
