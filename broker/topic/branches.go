package topic

import (
	"hash/maphash"
	"iter"
)

// Branches are several children of a node, by their first level. A million of them take
// a quarter of what they would in a map: the keys are in the nodes anyway.
type branches[V any] struct {
	tags  []byte     // a byte of the hash in each used slot, 0 in others
	nodes []*node[V] // in its slot or behind it, with no unused slot between
	count int
}

const leastBranches = 4

var seed = maphash.MakeSeed()

func hashOf(level string) uint32 { return uint32(maphash.String(seed, level)) }

func tagOf(hash uint32) byte { return byte(hash) | 1<<7 }

// slot is where a hash belongs.
func (b *branches[V]) slot(hash uint32) int {
	return int(uint64(hash) * uint64(len(b.tags)) >> 32)
}

func (b *branches[V]) after(slot int) int {
	if slot++; slot == len(b.tags) {
		return 0
	}
	return slot
}

// find is the slot of a level, or the unused one where it would be.
func (b *branches[V]) find(level string, hash uint32) int {
	tag := tagOf(hash)
	for at := b.slot(hash); ; at = b.after(at) {
		switch {
		case b.tags[at] == 0:
			return at
		case b.tags[at] == tag && b.nodes[at].hash == hash && b.nodes[at].begins(level):
			return at
		}
	}
}

// get is the child whose first level this is, or nil.
func (b *branches[V]) get(level string) *node[V] { return b.nodes[b.find(level, hashOf(level))] }

// put adds a child, or replaces the one with the same first level.
func (b *branches[V]) put(c *node[V]) {
	if 5*(b.count+1) > 4*len(b.tags) {
		b.grow()
	}
	level := c.first()
	c.hash = hashOf(level)
	at := b.find(level, c.hash)
	if b.tags[at] == 0 {
		b.count++
	}
	b.tags[at], b.nodes[at] = tagOf(c.hash), c
}

func (b *branches[V]) grow() {
	old := b.nodes
	size := max(len(old)+len(old)/2, leastBranches)
	b.tags, b.nodes = make([]byte, size), make([]*node[V], size)
	for _, c := range old {
		if c == nil {
			continue
		}
		at := b.slot(c.hash)
		for b.tags[at] != 0 {
			at = b.after(at)
		}
		b.tags[at], b.nodes[at] = tagOf(c.hash), c
	}
}

// remove takes out the child whose first level this is, and moves those up that would
// not be found any more.
func (b *branches[V]) remove(level string) {
	gap := b.find(level, hashOf(level))
	if b.tags[gap] == 0 {
		return
	}
	b.count--
	for at := b.after(gap); b.tags[at] != 0; at = b.after(at) {
		if b.distance(b.slot(b.nodes[at].hash), at) >= b.distance(gap, at) {
			b.tags[gap], b.nodes[gap] = b.tags[at], b.nodes[at]
			gap = at
		}
	}
	b.tags[gap], b.nodes[gap] = 0, nil
}

// distance is the number of slots from one up to another.
func (b *branches[V]) distance(from, to int) int {
	if to < from {
		to += len(b.tags)
	}
	return to - from
}

// all yields the children, in any order.
func (b *branches[V]) all() iter.Seq[*node[V]] {
	return func(yield func(*node[V]) bool) {
		for _, c := range b.nodes {
			if c != nil && !yield(c) {
				return
			}
		}
	}
}
