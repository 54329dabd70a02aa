package routes

import "sync"

// A shard is a part of the table of filters without wildcards: those with the same
// leading bits of the hash. A cell has the other bits of the hash in its upper bits and
// a slot in the lower ones: eight bytes for a filter at a bridge.
//
// Cells are found by linear probing, in the order of their hashes. The number of
// cells grows by a fifth at a time, so that between 70 and 85 % are in use.
type shard struct {
	mu    sync.RWMutex
	cells []uint64
	used  int
	many  map[uint64]*slots // by hash: filters at more than aFew bridges
}

const (
	shardBits = slotBits // so that hash and slot take 64 bits
	shards    = 1 << shardBits
	aFew      = 4 // greatest number of bridges with cells of their own for one filter
	leastRoom = 4 // cells
)

// place splits a hash into the number of its shard and the hash bits of its cells.
func place(hash uint64) (shard int, cell uint64) {
	return int(hash >> (64 - shardBits)), hash << slotBits
}

// home is the first cell that an entry may be in.
func (s *shard) home(cell uint64) int {
	return int(cell >> 32 * uint64(len(s.cells)) >> 32)
}

func (s *shard) next(i int) int {
	if i++; i < len(s.cells) {
		return i
	}
	return 0
}

func slotOf(cell uint64) slot   { return slot(cell & (1<<slotBits - 1)) }
func hashOf(cell uint64) uint64 { return cell &^ (1<<slotBits - 1) }

// find adds the slots of a hash to found.
func (s *shard) find(hash uint64, found *slots) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.used == 0 {
		return
	}
	for i := s.home(hash); s.cells[i] != 0; i = s.next(i) {
		switch c := s.cells[i]; {
		case hashOf(c) != hash:
		case slotOf(c) == elsewhere:
			found.addAll(*s.many[hash])
			return
		default:
			found.add(slotOf(c))
		}
	}
}

// add notes that a hash is in a slot, and reports whether that is news.
func (s *shard) add(hash uint64, in slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.many[hash]; set != nil {
		was := set.has(in)
		set.add(in)
		return !was
	}
	same := 0
	if s.used > 0 {
		for i := s.home(hash); s.cells[i] != 0; i = s.next(i) {
			if s.cells[i] == hash|uint64(in) {
				return false
			}
			if hashOf(s.cells[i]) == hash {
				same++
			}
		}
	}
	if same == aFew {
		s.spread(hash, in)
		return true
	}
	s.insert(hash | uint64(in))
	return true
}

// spread moves the slots of a hash, and one more, into the map.
func (s *shard) spread(hash uint64, in slot) {
	set := new(slots)
	set.add(in)
	for i := s.home(hash); s.cells[i] != 0; i = s.next(i) {
		if hashOf(s.cells[i]) == hash {
			set.add(slotOf(s.cells[i]))
		}
	}
	for was := range set.all() {
		s.erase(hash | uint64(was))
	}
	if s.many == nil {
		s.many = make(map[uint64]*slots)
	}
	s.many[hash] = set
	s.insert(hash | uint64(elsewhere))
}

// drop notes that a hash is no longer in a slot, and reports whether it was.
func (s *shard) drop(hash uint64, from slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.many[hash]
	if set == nil {
		return s.erase(hash | uint64(from))
	}
	was := set.has(from)
	set.remove(from)
	s.tidy(hash, set)
	return was
}

// tidy forgets a set that is empty.
func (s *shard) tidy(hash uint64, set *slots) {
	if set.empty() {
		delete(s.many, hash)
		s.erase(hash | uint64(elsewhere))
	}
}

// sweep drops everything of a slot.
func (s *shard) sweep(from slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, set := range s.many {
		set.remove(from)
		s.tidy(hash, set)
	}
	gone := 0
	for _, c := range s.cells {
		if c != 0 && slotOf(c) == from {
			gone++
		}
	}
	switch left := s.used - gone; {
	case gone == 0:
	case left == 0:
		s.cells, s.used = nil, 0
	default:
		s.rebuild(s.cells, max(leastRoom, left*5/4+1), from)
	}
}

// insert adds a cell that is not in the shard yet.
func (s *shard) insert(cell uint64) {
	if (s.used+1)*20 > len(s.cells)*17 { // 85 %
		s.rebuild(s.cells, max(leastRoom, len(s.cells)*6/5+1), 0)
	}
	i := s.home(cell)
	for s.cells[i] != 0 {
		i = s.next(i)
	}
	s.cells[i] = cell
	s.used++
}

// rebuild gives the shard a new array of cells, without those of a slot.
func (s *shard) rebuild(old []uint64, cells int, without slot) {
	s.cells, s.used = make([]uint64, cells), 0
	for _, c := range old {
		if c != 0 && slotOf(c) != without {
			s.insert(c)
		}
	}
}

// erase removes a cell, and moves later cells of its probe sequence up. It reports
// whether the cell was there.
func (s *shard) erase(cell uint64) bool {
	if s.used == 0 {
		return false
	}
	at := s.home(cell)
	for s.cells[at] != cell {
		if s.cells[at] == 0 {
			return false
		}
		at = s.next(at)
	}
	for i := s.next(at); s.cells[i] != 0; i = s.next(i) {
		home := s.home(s.cells[i])
		// The cell may move to the hole unless its home lies between the two.
		if (at < i && (home <= at || home > i)) || (at > i && home <= at && home > i) {
			s.cells[at] = s.cells[i]
			at = i
		}
	}
	s.cells[at] = 0
	s.used--
	return true
}
