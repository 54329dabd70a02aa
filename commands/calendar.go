package commands

import (
	"iter"
	"time"
)

// horizon is how many seconds ahead the calendar tells apart. It covers the
// longest timeout and the usual skew; what expires later is looked at then
// and put off again.
const horizon = 1024

// A calendar holds finished entries of the ledger by the second in which they
// expire.
type calendar struct {
	days  [horizon]*entry // lists by second modulo horizon
	swept int64           // every second up to this one is empty
}

// add puts an entry on its day.
func (c *calendar) add(e *entry, now time.Time) {
	if c.swept == 0 {
		c.swept = now.Unix()
	}
	day := e.expires.Unix() + 1 // not before it has expired
	e.day = min(max(day, c.swept+1), c.swept+horizon-1)
	first := &c.days[e.day%horizon]
	if e.later = *first; e.later != nil {
		e.later.sooner = e
	}
	*first = e
}

// remove takes an entry off its day.
func (c *calendar) remove(e *entry) {
	if e.sooner == nil {
		c.days[e.day%horizon] = e.later
	} else {
		e.sooner.later = e.later
	}
	if e.later != nil {
		e.later.sooner = e.sooner
	}
	e.sooner, e.later = nil, nil
}

// due yields the entries whose day has come. Each must be removed.
func (c *calendar) due(now time.Time) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		today := now.Unix()
		if c.swept == 0 || today-c.swept > horizon {
			c.swept = today - horizon
		}
		for c.swept < today {
			c.swept++
			for e := c.days[c.swept%horizon]; e != nil; e = c.days[c.swept%horizon] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// soonest is an entry of the earliest day that has one, nil if none has.
func (c *calendar) soonest() *entry {
	for day := c.swept + 1; day < c.swept+horizon; day++ {
		if e := c.days[day%horizon]; e != nil {
			return e
		}
	}
	return nil
}
