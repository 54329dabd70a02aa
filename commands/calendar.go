package commands

import (
	"iter"
	"time"
)

// horizon is how many seconds ahead the calendar tells apart. It covers the
// longest timeout and the usual skew; what expires later is looked at then
// and put off again.
const horizon = 1024

// A calendar holds the records of the ledger by the second in which they
// expire.
type calendar struct {
	days  [horizon]slot // lists by second modulo horizon
	swept int64         // every second up to this one is empty
}

// add puts a record on its day.
func (c *calendar) add(t *recordTable, s slot, now time.Time) {
	if c.swept == 0 {
		c.swept = now.Unix()
	}
	r := t.at(s)
	day := r.expires/1000 + 1 // not before it has expired
	r.day = min(max(day, c.swept+1), c.swept+horizon-1)
	first := &c.days[r.day%horizon]
	r.sooner = noSlot
	if r.later = *first; r.later != noSlot {
		t.at(r.later).sooner = s
	}
	*first = s
}

// remove takes a record off its day.
func (c *calendar) remove(t *recordTable, s slot) {
	r := t.at(s)
	if r.sooner == noSlot {
		c.days[r.day%horizon] = r.later
	} else {
		t.at(r.sooner).later = r.later
	}
	if r.later != noSlot {
		t.at(r.later).sooner = r.sooner
	}
	r.sooner, r.later = noSlot, noSlot
}

// due yields the records whose day has come. Each must be removed.
func (c *calendar) due(t *recordTable, now time.Time) iter.Seq[slot] {
	return func(yield func(slot) bool) {
		today := now.Unix()
		if c.swept == 0 || today-c.swept > horizon {
			c.swept = today - horizon
		}
		for c.swept < today {
			c.swept++
			for s := c.days[c.swept%horizon]; s != noSlot; s = c.days[c.swept%horizon] {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// soonest is a record of the earliest day that has one, noSlot if none has.
func (c *calendar) soonest() slot {
	for day := c.swept + 1; day < c.swept+horizon; day++ {
		if s := c.days[day%horizon]; s != noSlot {
			return s
		}
	}
	return noSlot
}
