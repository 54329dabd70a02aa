package approval

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
)

// A calendar holds the due times of pending approvals. It takes some dozen bytes for
// each and one goroutine for all.
type calendar struct {
	mu   sync.Mutex
	next appointments
	of   map[string]*appointment // by approval
	wake chan struct{}
}

// An appointment is the due time of an approval.
type appointment struct {
	at    int64 // Unix ms
	id    string
	place int // in the heap
}

type appointments []*appointment

func (a appointments) Len() int           { return len(a) }
func (a appointments) Less(i, j int) bool { return a[i].at < a[j].at }

// Swap implements [heap.Interface].
func (a appointments) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

// Push implements [heap.Interface].
func (a *appointments) Push(x any) {
	last := x.(*appointment)
	last.place = len(*a)
	*a = append(*a, last)
}

// Pop implements [heap.Interface].
func (a *appointments) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = nil
	*a = (*a)[:len(*a)-1]
	return last
}

func newCalendar() *calendar {
	return &calendar{of: make(map[string]*appointment), wake: make(chan struct{}, 1)}
}

// note sets the due time of an approval.
func (c *calendar) note(at int64, id string) {
	c.mu.Lock()
	if a := c.of[id]; a != nil {
		a.at = at
		heap.Fix(&c.next, a.place)
	} else {
		a = &appointment{at: at, id: id}
		c.of[id] = a
		heap.Push(&c.next, a)
	}
	first := c.next[0].id == id
	c.mu.Unlock()
	if first {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// drop removes the due time of an approval that waits no more.
func (c *calendar) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.of[id]; a != nil {
		heap.Remove(&c.next, a.place)
		delete(c.of, id)
	}
}

// due removes and returns the ids that are due, and the time of the next appointment,
// zero for none.
func (c *calendar) due(now time.Time) (ids []string, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.next) > 0 && c.next[0].at <= now.UnixMilli() {
		id := heap.Pop(&c.next).(*appointment).id
		delete(c.of, id)
		ids = append(ids, id)
	}
	if len(c.next) > 0 {
		next = time.UnixMilli(c.next[0].at)
	}
	return ids, next
}

// lookEvery is the time within which the calendar detects a change of the clock, or the
// end of the machine's sleep.
const lookEvery = 10 * time.Second

// keep calls look for every approval that is due, until ctx ends.
func (c *calendar) keep(ctx context.Context, now func() time.Time, look func(ctx context.Context, id string)) {
	for {
		ids, next := c.due(now())
		for _, id := range ids {
			if ctx.Err() != nil {
				return
			}
			look(ctx, id)
		}
		wait := lookEvery
		if !next.IsZero() {
			wait = min(max(next.Sub(now()), time.Millisecond), lookEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// look does the due step of a pending approval: it ends the approval, escalates it, or
// reminds the deciders. The end of an approval with a waiting call is left to that call
// for graceForWaiters.
func (s *Service) look(ctx context.Context, id string) {
	release, err := s.deciding.Lock(ctx, id)
	if err != nil {
		return
	}
	defer release()
	r, revision, ok := s.opts.Approvals.Get(id)
	if !ok || r.State != Pending {
		return
	}
	end := r.Expires
	if !r.Parked {
		end += graceForWaiters
	}
	switch now := ms(s.opts.Now()); {
	case now >= end:
		_, err = s.end(ctx, r, revision, Expired, "nobody decided in time")
	case now >= r.Expires:
		s.calendar.note(end, id)
	case r.escalatesAt() > 0 && now >= r.escalatesAt():
		err = s.step(ctx, r, revision, "approval.escalated", func(next *Record) { next.EscalatedAt = now })
	case r.remindsAt() > 0 && now >= r.remindsAt():
		err = s.step(ctx, r, revision, "approval.reminded", func(next *Record) { next.RemindedAt = now })
	default:
		s.calendar.note(r.due(), id)
	}
	if err != nil && !records.Raced(err) && ctx.Err() == nil {
		s.opts.Log.Warn("the due step of an approval is not stored", "approval", id, "error", err)
		s.calendar.note(ms(s.opts.Now().Add(lookEvery)), id)
	}
}

// step stores and publishes an event of an approval that stays pending.
func (s *Service) step(ctx context.Context, r *Record, revision uint64, event string, change func(next *Record)) error {
	next := *r
	change(&next)
	step := s.happens(&next, event)
	if _, err := s.opts.Approvals.Update(ctx, r.ID, &next, revision); err != nil {
		return err
	}
	s.tell(&next, step, nil)
	return nil
}
