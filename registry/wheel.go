package registry

import "time"

// A wheel finds the leases that ran out. It keeps every lease in the slot of the
// tick it ends in; renewing a lease moves nothing, the wheel looks again when the
// slot comes up. So a heartbeat costs no more than a store to memory, and one
// goroutine serves any number of agents.
type wheel struct {
	start time.Time
	tick  time.Duration
	slots [128][]*presence
	next  int64 // the tick that comes up next
}

func newWheel(tick time.Duration, now time.Time) *wheel {
	return &wheel{start: now, tick: tick}
}

// tickOf is the tick a moment is in. Moments are monotonic: setting the clock
// ends no lease.
func (w *wheel) tickOf(t time.Time) int64 { return int64(t.Sub(w.start) / w.tick) }

// schedule looks at p when its lease ends, or earlier.
func (w *wheel) schedule(p *presence) {
	if p.scheduled {
		return
	}
	p.scheduled = true
	at := max(w.tickOf(p.lease)+1, w.next)
	at = min(at, w.next+int64(len(w.slots))-1) // further leases take another round
	slot := at % int64(len(w.slots))
	w.slots[slot] = append(w.slots[slot], p)
}

// advance calls due for everything whose lease has ended by now.
func (w *wheel) advance(now time.Time, due func(*presence)) {
	for last := w.tickOf(now); w.next <= last; {
		slot := w.next % int64(len(w.slots))
		batch := w.slots[slot]
		w.slots[slot] = nil
		w.next++
		for _, p := range batch {
			p.scheduled = false
			switch {
			case p.lease.IsZero():
			case p.lease.After(now):
				w.schedule(p)
			default:
				due(p)
			}
		}
	}
}
