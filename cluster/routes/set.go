package routes

import (
	"iter"
	"math/bits"
)

// A slot is the number of the announcements of one bridge: a snapshot and the changes
// after it. The next snapshot of the bridge gets another slot.
type slot uint16

// Slots fit into the bits of an entry that its hash leaves. 0 would make an
// entry of the hash 0 look empty.
const (
	slotBits       = 12
	maxSlot   slot = 1<<slotBits - 2
	elsewhere slot = 1<<slotBits - 1 // the bridges are in the shard's map
)

// A slots is a set of slots.
type slots []uint64

func (s *slots) add(i slot) {
	for int(i)/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

func (s slots) remove(i slot) {
	if int(i)/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

func (s slots) has(i slot) bool { return int(i)/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

func (s *slots) addAll(other slots) {
	for len(*s) < len(other) {
		*s = append(*s, 0)
	}
	for i, word := range other {
		(*s)[i] |= word
	}
}

func (s slots) empty() bool {
	for _, word := range s {
		if word != 0 {
			return false
		}
	}
	return true
}

func (s slots) all() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(slot(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
