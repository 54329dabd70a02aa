package commands

import (
	"iter"
	"time"
)

// horizon is the number of seconds ahead that the expiry tells apart. It covers the
// longest timeout and the usual skew; later expiries are looked at then and put off
// again.
const horizon = 1024

// An expiry holds the records of the ledger by the second in which they
// expire.
type expiry struct {
	days  [horizon]day // by second modulo horizon
	swept int64        // every second up to this one is empty
	bare  int64        // so is every day before this one
}

// A day is a list of records, of which the newest is the first.
type day struct{ newest, oldest slot }

// add puts a record on its day.
func (c *expiry) add(t *recordTable, s slot, now time.Time) {
	if c.swept == 0 {
		c.swept = now.Unix()
	}
	r := t.at(s)
	due := r.expires/1000 + 1 // not before it has expired
	r.day = min(max(due, c.swept+1), c.swept+horizon-1)
	c.bare = min(c.bare, r.day)
	d := &c.days[r.day%horizon]
	r.newer, r.older = noSlot, d.newest
	if d.newest == noSlot {
		d.oldest = s
	} else {
		t.at(d.newest).newer = s
	}
	d.newest = s
}

// remove takes a record off its day.
func (c *expiry) remove(t *recordTable, s slot) {
	r := t.at(s)
	d := &c.days[r.day%horizon]
	if r.newer == noSlot {
		d.newest = r.older
	} else {
		t.at(r.newer).older = r.older
	}
	if r.older == noSlot {
		d.oldest = r.newer
	} else {
		t.at(r.older).newer = r.newer
	}
	r.newer, r.older = noSlot, noSlot
}

// due yields the records whose day has come. Each must be removed.
func (c *expiry) due(t *recordTable, now time.Time) iter.Seq[slot] {
	return func(yield func(slot) bool) {
		today := now.Unix()
		if c.swept == 0 || today-c.swept > horizon {
			c.swept = today - horizon
		}
		for c.swept < today {
			c.swept++
			for d := &c.days[c.swept%horizon]; d.oldest != noSlot; {
				if !yield(d.oldest) {
					return
				}
			}
		}
	}
}

// soonest is the oldest record of the earliest day that has one, noSlot if none
// has.
func (c *expiry) soonest() slot {
	for c.bare = max(c.bare, c.swept+1); c.bare < c.swept+horizon; c.bare++ {
		if s := c.days[c.bare%horizon].oldest; s != noSlot {
			return s
		}
	}
	return noSlot
}
