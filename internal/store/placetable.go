package store

import (
	"hash/maphash"
)

// A placeTable has the places of the last values by their keys. It takes about half of what
// a map does with so many entries, and gives out the keys it has, so that they need not be
// in memory twice. The zero value is empty.
type placeTable struct {
	slots  []placeSlot    // as many as a power of two, at most three quarters in use
	chunks [][]valuePlace // of the entries, which do not move
	used   int            // entries in the chunks, those of removed keys too
	free   []uint32       // entries of removed keys
	seed   maphash.Seed
}

// A placeSlot refers to an entry. One that is in use stands at its hash or behind that,
// with no unused slot between.
type placeSlot struct {
	hash  uint32
	entry uint32 // counted from 1; 0 is an unused slot
}

// A valuePlace is the place of a change.
type valuePlace struct {
	key      string
	record   uint64 // first sequence of the record
	at, size uint32
}

const (
	placeChunk      = 1024
	leastPlaceSlots = 16
)

// len is the number of keys.
func (t *placeTable) len() int { return t.used - len(t.free) }

// find is the place of a key, nil if there is none. It is valid until the key is removed.
func (t *placeTable) find(key []byte) *valuePlace {
	if len(t.slots) == 0 {
		return nil
	}
	if s := t.slots[t.search(key, t.hash(key))]; s.entry != 0 {
		return t.entry(s.entry)
	}
	return nil
}

// of is the place of a key, an empty one if there was none.
func (t *placeTable) of(key []byte) *valuePlace {
	if 4*(t.len()+1) > 3*len(t.slots) {
		t.grow()
	}
	hash := t.hash(key)
	s := &t.slots[t.search(key, hash)]
	if s.entry == 0 {
		*s = placeSlot{hash, t.newEntry()}
		t.entry(s.entry).key = string(key)
	}
	return t.entry(s.entry)
}

// remove takes a key out, and returns the size of its value, 0 if there was none.
func (t *placeTable) remove(key []byte) (size uint32) {
	if len(t.slots) == 0 {
		return 0
	}
	at := t.search(key, t.hash(key))
	s := t.slots[at]
	if s.entry == 0 {
		return 0
	}
	p := t.entry(s.entry)
	size = p.size
	*p = valuePlace{}
	t.free = append(t.free, s.entry)
	t.vacate(at)
	return size
}

// vacate empties a slot and moves those behind it up that would not be found any more.
func (t *placeTable) vacate(gap int) {
	mask := len(t.slots) - 1
	for at := (gap + 1) & mask; t.slots[at].entry != 0; at = (at + 1) & mask {
		home := int(t.slots[at].hash) & mask
		if (at-home)&mask >= (at-gap)&mask {
			t.slots[gap] = t.slots[at]
			gap = at
		}
	}
	t.slots[gap] = placeSlot{}
}

// search is the slot of a key, or the unused one where it would be.
func (t *placeTable) search(key []byte, hash uint32) int {
	mask := len(t.slots) - 1
	for at := int(hash) & mask; ; at = (at + 1) & mask {
		s := t.slots[at]
		if s.entry == 0 || s.hash == hash && string(key) == t.entry(s.entry).key {
			return at
		}
	}
}

func (t *placeTable) hash(key []byte) uint32 { return uint32(maphash.Bytes(t.seed, key)) }

func (t *placeTable) entry(number uint32) *valuePlace {
	return &t.chunks[(number-1)/placeChunk][(number-1)%placeChunk]
}

func (t *placeTable) newEntry() uint32 {
	if last := len(t.free) - 1; last >= 0 {
		number := t.free[last]
		t.free = t.free[:last]
		return number
	}
	if t.used == len(t.chunks)*placeChunk {
		t.chunks = append(t.chunks, make([]valuePlace, placeChunk))
	}
	t.used++
	return uint32(t.used)
}

func (t *placeTable) grow() {
	if len(t.slots) == 0 {
		t.seed = maphash.MakeSeed()
	}
	old := t.slots
	t.slots = make([]placeSlot, max(2*len(old), leastPlaceSlots))
	mask := len(t.slots) - 1
	for _, s := range old {
		if s.entry == 0 {
			continue
		}
		at := int(s.hash) & mask
		for t.slots[at].entry != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = s
	}
}
