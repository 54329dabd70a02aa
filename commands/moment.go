package commands

import (
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
)

// calendarEvery is the time within which moments follow a system clock that is set.
const calendarEvery = time.Millisecond

// moments tell the time of the calendar at steady times. Asking the system for both is
// the dearest part of asking for the time, and a call wants to know it several times:
// so the calendar is asked once a millisecond, and the steady clock says what has
// passed since. They are safe for use by several goroutines.
type moments struct {
	clock  *clock.Clock
	latest atomic.Pointer[bearing]
}

// A bearing is both times of one moment. It does not change.
type bearing struct {
	steady   int64
	calendar time.Time
}

// at is the calendar's time at a steady one of the last moments, as [time.Now] has it.
func (m *moments) at(steady int64) time.Time {
	a := m.latest.Load()
	if a == nil || steady-a.steady >= int64(calendarEvery) {
		a = &bearing{calendar: time.Now(), steady: m.clock.Steady()}
		m.latest.Store(a)
	}
	return a.calendar.Add(time.Duration(steady - a.steady))
}

// moment is the present time, by the calendar and by a clock that nobody sets, of which
// only differences mean anything.
func (r *Router) moment() (now, steady time.Time) { return r.momentAt(r.opts.Clock.Steady()) }

// momentAt is moment at a steady time of the present turn.
func (r *Router) momentAt(steady int64) (now, passed time.Time) {
	if r.moments == nil {
		return r.opts.Now(), time.Unix(0, steady)
	}
	return r.moments.at(steady), time.Unix(0, steady)
}

// Now is the present time by the router's clock, for what a call takes.
func (c *Call) Now() time.Time {
	now, _ := c.router.moment()
	return now
}
