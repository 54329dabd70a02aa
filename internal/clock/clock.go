// Package clock tells the time so that a system clock that is set, or was
// wrong for a moment, breaks nothing. Every package may import it.
//
// Three times are told, and each has its use:
//
//   - [Clock.Steady] for durations: time-outs, keep alive, intervals, rates and
//     whatever ends some time after something happened in this process. It
//     goes on evenly whatever the system's clock is set to, and stands still
//     while the machine sleeps.
//   - [Clock.Now] for the calendar: stamps, and whether a credential has
//     expired. It is right after a sleep. A clock that is ahead ends
//     credentials too early, which is the safe side.
//   - [Clock.Settled] for deadlines of what is stored and lost for good once it
//     is dropped: claims, revocations. It is the calendar's time, too, but
//     believes that the system's clock was set forward only once that has
//     lasted for [Hold].
//
// A duration that has to outlive the process is stored as the time of the
// calendar at which it ends, see [Clock.Wall] and [Clock.FromWall]. One that another
// process may read is stored by the time that both agree on, see [Clock.Common] and
// [Clock.FromCommon].
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Hold is the time that the system's clock must have been ahead before
// [Clock.Settled] follows it.
const Hold = 10 * time.Minute

// tolerance is the difference of the system's clock to the steady one between two
// looks that does not mean that it was set.
const tolerance = 2 * time.Second

// A Clock is safe for use by several goroutines. Make it with [New].
type Clock struct {
	start time.Time     // both readings
	looks time.Duration // between two of an appointment
	wall  int64         // of start, nanoseconds since 1970

	advanced atomic.Int64 // by Advance, nanoseconds
	stepped  atomic.Int64 // by Step, nanoseconds

	agreed atomic.Pointer[time.Duration] // how far the common time is ahead of the steady one; nil: it is the calendar

	mu      sync.Mutex
	believe time.Duration // how far Settled is from the steady time
	doubted time.Duration // how far the system's clock was when it was first seen ahead; 0: it is not
	since   int64         // steady time of that
}

// New returns a clock that goes with the system's.
func New() *Clock { return Looking(lookEvery) }

// Looking is [New] with a clock that looks more often whether it was set, for
// tests that set it.
func Looking(every time.Duration) *Clock {
	now := time.Now()
	return &Clock{start: now, looks: every, wall: now.UnixNano()}
}

// Steady is nanoseconds since 1970 by a clock that was right when c was made
// and has not been set since. Only differences mean anything, and only within
// one process.
func (c *Clock) Steady() int64 {
	return c.wall + int64(time.Since(c.start)) + c.advanced.Load()
}

// Now is the time of the calendar, as the system's clock has it. It carries no
// monotonic reading, so that differences of two are the calendar's as well.
func (c *Clock) Now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.advanced.Load() + c.stepped.Load()))
}

// Settled is the time of the calendar, but for a system clock that was set
// forward less than [Hold] ago: then it is the time without that step. It
// follows one that was set back at once.
func (c *Clock) Settled() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady := c.Steady()
	ahead := time.Duration(c.Now().UnixNano() - steady)
	switch {
	case ahead-c.believe <= tolerance:
		c.believe, c.doubted = ahead, 0
	case c.doubted == 0 || ahead-c.doubted > tolerance: // set, or set once more
		c.doubted, c.since = ahead, steady
	case steady-c.since >= int64(Hold):
		c.believe, c.doubted = ahead, 0
	}
	return time.Unix(0, steady).Add(c.believe)
}

// Wall is the time of the calendar at a steady time, as far as that is known
// now: the form in which a deadline is stored.
func (c *Clock) Wall(steady int64) time.Time {
	return c.Now().Add(time.Duration(steady - c.Steady()))
}

// FromWall is the steady time of a deadline that was stored, which was longest
// ahead when it was made: it is capped at that, as the system's clock may have been
// set meanwhile.
func (c *Clock) FromWall(deadline time.Time, longest time.Duration) int64 {
	return c.Steady() + int64(min(deadline.Sub(c.Now()), longest))
}

// Common is the time of the bridges of a cluster at a steady time: the form in which a
// deadline is stored that another bridge may read. Without a cluster it is
// [Clock.Wall].
func (c *Clock) Common(steady int64) time.Time {
	if agreed := c.agreed.Load(); agreed != nil {
		return time.Unix(0, steady).Add(*agreed)
	}
	return c.Wall(steady)
}

// FromCommon is [Clock.FromWall] for a deadline that [Clock.Common] made, here or at
// another bridge.
func (c *Clock) FromCommon(deadline time.Time, longest time.Duration) int64 {
	if agreed := c.agreed.Load(); agreed != nil {
		steady := c.Steady()
		return steady + int64(min(deadline.Sub(time.Unix(0, steady).Add(*agreed)), longest))
	}
	return c.FromWall(deadline, longest)
}

// Agree sets how far the time of the bridges of a cluster is ahead of the steady time of
// this process. It may be set again.
func (c *Clock) Agree(ahead time.Duration) { c.agreed.Store(&ahead) }

// Advance lets time pass at once, for tests: by both the calendar and the
// steady clock.
func (c *Clock) Advance(d time.Duration) { c.advanced.Add(int64(d)) }

// Step sets the system's clock forward or, by less than 0, back, for tests.
// The steady clock does not change, as when a machine wakes up.
func (c *Clock) Step(d time.Duration) { c.stepped.Add(int64(d)) }
