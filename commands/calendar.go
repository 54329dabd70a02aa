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
	day = min(max(day, c.swept+1), c.swept+horizon-1)
	e.later = c.days[day%horizon]
	c.days[day%horizon] = e
}

// due removes and yields the entries whose day has come.
func (c *calendar) due(now time.Time) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		today := now.Unix()
		if c.swept == 0 || today-c.swept > horizon {
			c.swept = today - horizon
		}
		for c.swept < today {
			c.swept++
			e := c.days[c.swept%horizon]
			c.days[c.swept%horizon] = nil
			for e != nil {
				next := e.later
				e.later = nil
				if !yield(e) {
					return
				}
				e = next
			}
		}
	}
}

// soonest removes and returns an entry of the earliest day that has one.
func (c *calendar) soonest() *entry {
	for day := c.swept + 1; day < c.swept+horizon; day++ {
		if e := c.days[day%horizon]; e != nil {
			c.days[day%horizon] = e.later
			e.later = nil
			return e
		}
	}
	return nil
}
