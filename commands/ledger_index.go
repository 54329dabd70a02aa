package commands

import (
	"sync/atomic"
	"unsafe"

	"github.com/aibridge/aibridge/internal/prefetch"
)

// A ledgerIndex finds the records of requests by their keys. There may be
// half a million, few of which are ever found again, so nearly every look-up misses
// the processor's caches. So a look-up reads one place only: eight bytes for each
// record, half a hash and a slot, in open addressing with linear probing.
//
// It is many small tables, each of which grows on its own, so that no request
// waits until half a million were moved.
type ledgerIndex struct {
	tables  [indexTables]indexTable
	records *recordTable // has the keys themselves
	count   int
}

const indexTables = 256

// An indexTable has a power of two of places, a quarter of which is free.
type indexTable struct {
	buckets []indexBucket
	used    int

	// The same for those that approach a place without the ledger's lock.
	base atomic.Uintptr // of the buckets
	mask atomic.Uint32
}

type indexBucket struct {
	hash uint32
	slot slot // noSlot where there is none
}

// minBuckets is the size that a table begins with.
const minBuckets = 16

// tableOf is the table of a key, and the hash by which it is found there.
func (x *ledgerIndex) tableOf(k entryKey) (*indexTable, uint32) {
	return &x.tables[k.a%indexTables], uint32(k.b)
}

// find returns the slot of the record with a key, noSlot if there is none.
func (x *ledgerIndex) find(k entryKey) slot {
	t, hash := x.tableOf(k)
	return x.slotAt(t, x.place(t, k, hash))
}

func (x *ledgerIndex) slotAt(t *indexTable, i uint32) slot {
	if len(t.buckets) == 0 {
		return noSlot
	}
	return t.buckets[i].slot
}

// approach has the processor fetch the place where a key will be looked for. It needs no
// lock: while a table grows, it may be another place.
func (x *ledgerIndex) approach(k entryKey) {
	t, hash := x.tableOf(k)
	prefetch.Line(t.base.Load() + uintptr(hash&t.mask.Load())*unsafe.Sizeof(indexBucket{}))
}

// place is the place of a key, or of one that would be put.
func (x *ledgerIndex) place(t *indexTable, k entryKey, hash uint32) uint32 {
	if len(t.buckets) == 0 {
		return 0
	}
	mask := uint32(len(t.buckets) - 1)
	i := hash & mask
	for ; t.buckets[i].slot != noSlot; i = (i + 1) & mask {
		if t.buckets[i].hash == hash && x.records.at(t.buckets[i].slot).key == k {
			break
		}
	}
	return i
}

// enter returns the slot of the record with a key. If there is none it makes one, which
// has nothing but its key, in the place that was looked at.
func (x *ledgerIndex) enter(k entryKey) (s slot, known bool) {
	t, hash := x.tableOf(k)
	if t.used >= len(t.buckets)/4*3 {
		t.grow()
	}
	i := x.place(t, k, hash)
	if s = t.buckets[i].slot; s != noSlot {
		return s, true
	}
	s = x.records.take()
	*x.records.at(s) = record{key: k, answer: noAnswer}
	t.used++
	x.count++
	t.buckets[i] = indexBucket{hash, s}
	return s, false
}

func (t *indexTable) grow() {
	old := t.buckets
	t.buckets = make([]indexBucket, max(2*len(old), minBuckets))
	mask := uint32(len(t.buckets) - 1)
	for _, p := range old {
		if p.slot == noSlot {
			continue
		}
		i := p.hash & mask
		for t.buckets[i].slot != noSlot {
			i = (i + 1) & mask
		}
		t.buckets[i] = p
	}
	t.base.Store(uintptr(unsafe.Pointer(&t.buckets[0])))
	t.mask.Store(mask)
}

// remove takes a key out. Those behind it that had to make way for it move up.
func (x *ledgerIndex) remove(k entryKey) {
	t, hash := x.tableOf(k)
	i := x.place(t, k, hash)
	if x.slotAt(t, i) == noSlot {
		return
	}
	t.used--
	x.count--
	mask := uint32(len(t.buckets) - 1)
	for j := (i + 1) & mask; t.buckets[j].slot != noSlot; j = (j + 1) & mask {
		home := t.buckets[j].hash & mask
		if (j-home)&mask >= (j-i)&mask { // it may be at i as well
			t.buckets[i] = t.buckets[j]
			i = j
		}
	}
	t.buckets[i] = indexBucket{}
}
