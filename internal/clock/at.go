package clock

import (
	"sync"
	"time"
)

// lookEvery is the time within which [Clock.At] notices that the system's clock was
// set, or that the machine has slept.
const lookEvery = 10 * time.Second

// At calls f, in a goroutine of its own, once the calendar has come to a time:
// at once if it has already, and no later than ten seconds after a clock that
// was set forward, or a machine that wakes up, has gone past it. Stop forgets
// about it; f may be running then.
func (c *Clock) At(deadline time.Time, f func()) (stop func()) {
	a := &appointment{clock: c, deadline: deadline, f: f}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(a.wait(), a.look)
	return a.stop
}

// An appointment is a time of the calendar at which something is to be done.
type appointment struct {
	clock    *Clock
	deadline time.Time
	f        func()

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func (a *appointment) wait() time.Duration {
	return min(max(a.deadline.Sub(a.clock.Now()), 0), a.clock.looks)
}

func (a *appointment) look() {
	if !a.due() {
		return
	}
	a.f()
}

// due reports whether the time has come, and looks again later if not.
func (a *appointment) due() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	if wait := a.wait(); wait > 0 {
		a.timer.Reset(wait)
		return false
	}
	a.over = true
	return true
}

func (a *appointment) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.timer.Stop()
}
