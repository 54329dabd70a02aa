package commands

import "math/rand/v2"

// holders count how many records of the ledger each party has. Parties are known
// by a hash, and records name theirs by a number, so that they have no pointers.
type holders struct {
	numbers map[uint64]holder
	all     []holding
	free    []holder
	most    int // records that a party may have before it makes room for others
	over    int // parties that have more
}

// A holder is the number of a party.
type holder uint32

type holding struct {
	party uint64
	count int
}

// add counts one more record of a party.
func (h *holders) add(party uint64) holder {
	n, known := h.numbers[party]
	if !known {
		if last := len(h.free) - 1; last >= 0 {
			n, h.free = h.free[last], h.free[:last]
		} else {
			n = holder(len(h.all))
			h.all = append(h.all, holding{})
		}
		h.numbers[party], h.all[n] = n, holding{party: party}
	}
	if h.all[n].count++; h.all[n].count == h.most+1 {
		h.over++
	}
	return n
}

// remove counts one less.
func (h *holders) remove(n holder) {
	if h.all[n].count--; h.all[n].count == h.most {
		h.over--
	}
	if h.all[n].count == 0 {
		delete(h.numbers, h.all[n].party)
		h.free = append(h.free, n)
	}
}

// greedy reports whether a party has more than its share.
func (h *holders) greedy(n holder) bool { return h.all[n].count > h.most }

// looks is how many records are looked at to find one of a party that has more
// than its share. At least every fourth is of one, if there is one.
const looks = 16

// expendable is the record that goes when there are too many: the one that
// expires soonest. If its party has no more than its share, and other parties
// have more, it is a record of theirs instead: the soonest to expire of those
// looked at.
func (l *ledger) expendable() slot {
	soonest := l.expiry.soonest()
	if soonest == noSlot || l.holders.over == 0 || l.holders.greedy(l.records.at(soonest).holder) {
		return soonest
	}
	found := noSlot
	for range looks {
		s := slot(1 + rand.Int32N(int32(l.records.used)))
		r := l.records.at(s)
		if r.key == (entryKey{}) || !l.holders.greedy(r.holder) { // or it is free
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
