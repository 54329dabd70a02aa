package rollout

import (
	"iter"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A View is a rollout as it is now.
type View struct {
	*Rollout
	Counts Counts
	Rate   float64   // members a minute, 0 for any number
	Opens  time.Time // when the next member may be asked; zero for now or never
}

// Get shows a rollout.
func (e *Engine) Get(id protocol.TaskID) (View, bool) {
	r, _, ok := e.opts.Rollouts.Get(string(id))
	if !ok {
		return View{}, false
	}
	counts, _ := e.Counts(id)
	v := View{Rollout: r, Counts: counts}
	if r.damage() != "" {
		return v, true
	}
	v.Rate = r.Plan.Rollout.rate(counts.Succeeded)
	if now := e.opts.Clock.Now(); !r.Status.over() {
		from := now
		if r.Plan.ScheduleAt.After(now) {
			from, v.Opens = r.Plan.ScheduleAt, r.Plan.ScheduleAt
		}
		if open, next := r.Plan.opening(from); !open {
			v.Opens = next
		}
	}
	return v, true
}

// Counts are the numbers of members of a rollout by state.
func (e *Engine) Counts(id protocol.TaskID) (Counts, bool) {
	if r := e.find(id); r != nil {
		if c, ok := r.known(); ok {
			return c, true
		}
	}
	r, _, ok := e.opts.Rollouts.Get(string(id))
	if !ok {
		return Counts{}, false
	}
	var c Counts
	for _, p := range e.parts(r) {
		c.count(p, 1)
	}
	return c, true
}

// All yields every rollout, in no order.
func (e *Engine) All() iter.Seq[*Rollout] {
	return func(yield func(*Rollout) bool) {
		for _, r := range e.opts.Rollouts.All() {
			if !yield(r) {
				return
			}
		}
	}
}

// Members yields the members of a rollout behind a place, with the place of each
// in the roster, from 1 on.
func (e *Engine) Members(r *Rollout, behind int) iter.Seq2[int, *Member] {
	return func(yield func(int, *Member) bool) {
		for n := max(behind, 0) / partSize; n < min(r.Parts, mostParts); n++ {
			p, _, ok := e.opts.Parts.Get(partKey(r.ID, n))
			if !ok {
				continue
			}
			for i := range p.Members {
				if place := n*partSize + i + 1; place > behind && !yield(place, &p.Members[i]) {
					return
				}
			}
		}
	}
}

// Find looks a rollout up.
func (e *Engine) Find(id protocol.TaskID) (*Rollout, bool) {
	r, _, ok := e.opts.Rollouts.Get(string(id))
	return r, ok
}
