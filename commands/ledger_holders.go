package commands

import "math/rand/v2"

// holders count how many records of the ledger each party has, and each space.
// They are known by a hash, and records name theirs by a number, so that they
// have no pointers.
type holders struct {
	parties holdings
	spaces  holdings
}

// newHolders divides room for so many records as package fair divides places: a
// quarter for a party, half for a space.
func newHolders(room int) holders {
	return holders{
		parties: holdings{numbers: make(map[uint64]holder), most: room / 4},
		spaces:  holdings{numbers: make(map[uint64]holder), most: room / 2},
	}
}

// add counts one more record of a party in a space.
func (h *holders) add(party, space uint64) holder {
	n := h.parties.add(party)
	h.parties.all[n].space = h.spaces.add(space)
	return n
}

// remove counts one less.
func (h *holders) remove(n holder) {
	h.spaces.remove(h.parties.all[n].space)
	h.parties.remove(n)
}

// greedyParty reports whether a party has more than its share.
func (h *holders) greedyParty(n holder) bool { return h.parties.greedy(n) }

// greedySpace reports whether the space of a party has.
func (h *holders) greedySpace(n holder) bool { return h.spaces.greedy(h.parties.all[n].space) }

// holdings are counts by hash.
type holdings struct {
	numbers map[uint64]holder
	all     []holding
	free    []holder
	most    int    // records that one may have before it makes room for others
	over    int    // how many have more
	latest  holder // that was given another record, which most often is given the next
}

// A holder is the number of a party, or of a space.
type holder uint32

type holding struct {
	hash  uint64
	count int
	space holder // of a party
}

func (h *holdings) add(hash uint64) holder {
	if n := h.latest; int(n) < len(h.all) && h.all[n].hash == hash && h.all[n].count > 0 && h.all[n].count != h.most {
		h.all[n].count++
		return n
	}
	n, known := h.numbers[hash]
	if !known {
		if last := len(h.free) - 1; last >= 0 {
			n, h.free = h.free[last], h.free[:last]
		} else {
			n = holder(len(h.all))
			h.all = append(h.all, holding{})
		}
		h.numbers[hash], h.all[n] = n, holding{hash: hash}
	}
	if h.all[n].count++; h.all[n].count == h.most+1 {
		h.over++
	}
	h.latest = n
	return n
}

func (h *holdings) remove(n holder) {
	if h.all[n].count--; h.all[n].count == h.most {
		h.over--
	}
	if h.all[n].count == 0 {
		delete(h.numbers, h.all[n].hash)
		h.free = append(h.free, n)
	}
}

func (h *holdings) greedy(n holder) bool { return h.all[n].count > h.most }

// looks is the number of records that are looked at to find one of a holder with more
// than its share. At least every fourth is one, if there are any.
const looks = 16

// expendable is the record that goes when there are too many: the one that
// expires soonest. If its party and its space have no more than their shares,
// and others have more, it is one of theirs instead. Parties that have too much
// come before spaces that have, so that they make room for others of their own
// space, too.
func (l *ledger) expendable() slot {
	soonest := l.expiry.soonest()
	if soonest == noSlot {
		return noSlot
	}
	if l.holders.parties.over > 0 {
		return l.soonestOf(l.holders.greedyParty, soonest)
	}
	if l.holders.spaces.over > 0 {
		return l.soonestOf(l.holders.greedySpace, soonest)
	}
	return soonest
}

// soonestOf is the record that expires soonest if its holder is greedy, or else the
// soonest of greedy holders in a random sample.
func (l *ledger) soonestOf(greedy func(holder) bool, soonest slot) slot {
	if greedy(l.records.at(soonest).holder) {
		return soonest
	}
	found := noSlot
	for range looks {
		s := slot(1 + rand.Int32N(int32(l.records.used)))
		r := l.records.at(s)
		if r.key == (entryKey{}) || r.state == running || !greedy(r.holder) { // or it is free
			continue
		}
		if found == noSlot || r.expires < l.records.at(found).expires {
			found = s
		}
	}
	if found == noSlot {
		return soonest
	}
	return found
}
