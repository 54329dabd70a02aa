package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A bridge that dies again and again, or hands a rollout on, asks no more members a
// minute than one that lives.
func TestARateIsKeptOverRestarts(t *testing.T) {
	for _, life := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 29 * time.Second} {
		t.Run(life.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				const rate, devices = 30, 45
				w := newWorld(t, devices).boot()
				var asked []time.Time
				w.field.behave = func(protocol.AgentID, int) ask.Notice {
					asked = append(asked, time.Now())
					return answered
				}
				id := w.start(Plan{Rollout: &Pace{Rate: rate}})
				for began := time.Now(); time.Since(began) < 3*time.Minute; {
					time.Sleep(life)
					w.crash()
					w.boot()
				}
				w.expect(id, Complete, fmt.Sprintf("succeeded %d", devices))
				w.once(devices)
				w.crash()
				for i := rate + 1; i < len(asked); i++ {
					if took := asked[i].Sub(asked[i-rate-1]); took < time.Minute-2*time.Second {
						t.Errorf("%d members were asked in %v", rate+2, took)
					}
				}
			})
		})
	}
}

// seen waits until the worker of a rollout has made a whole turn.
func (w *world) seen(id protocol.TaskID) {
	w.t.Helper()
	r := w.engine.find(id)
	if r == nil {
		w.t.Fatal("nobody carries the rollout out")
	}
	before := r.turns.Load()
	eventually.Holds(w.t, "the rollout looks at the clock", func() bool {
		r.signal()
		return r.turns.Load() >= before+2
	})
}

// A clock that is wrong for a moment begins nothing too early, and ends nothing. One
// that stays so is believed.
func TestAClockThatIsSetForwardIsNotBelievedAtOnce(t *testing.T) {
	const ahead = 12 * time.Hour
	for name, c := range map[string]struct {
		plan   func(now time.Time) Plan
		before Status
		counts string // after it was believed
		then   Status
	}{
		"schedule_at": {func(now time.Time) Plan { return Plan{ScheduleAt: now.Add(ahead)} }, Scheduled, "succeeded 5", Complete},
		"window": {func(now time.Time) Plan {
			return Plan{Window: &Window{Cron: atMinute(now.Add(ahead - 10*time.Minute)), Duration: 1_800_000}}
		}, Running, "succeeded 5", Complete},
		"valid_until": {func(now time.Time) Plan {
			return Plan{ValidUntil: now.Add(ahead), Window: &Window{Cron: atMinute(now.Add(ahead - time.Hour)), Duration: 60_000}}
		}, Running, "timed_out 5", Fruitless},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5)
			w.later(time.Until(time.Date(2030, 5, 4, 12, 0, 30, 0, time.UTC)))
			w.boot()
			id := w.start(c.plan(w.now()))
			w.clock.Step(ahead + time.Minute)
			w.seen(id)
			w.expect(id, c.before, "queued 5")
			w.clock.Step(-ahead - time.Minute)
			w.seen(id)
			w.expect(id, c.before, "queued 5")

			w.clock.Step(ahead + time.Minute)
			w.seen(id)
			w.later(11 * time.Minute)
			w.expect(id, c.then, c.counts)
		})
	}
}

// atMinute is a cron that opens once a day, at the minute of a time.
func atMinute(at time.Time) string {
	return fmt.Sprintf("%d %d * * *", at.UTC().Minute(), at.UTC().Hour())
}

// A member that backs off is not kept waiting for days by a clock that is set back.
func TestAClockThatIsSetBackKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t, 3).boot()
	w.field.behave = func(agent protocol.AgentID, attempt int) ask.Notice {
		if agent == device(1) && attempt == 1 {
			return broken
		}
		return answered
	}
	id := w.start(Plan{Retry: &Retry{On: []State{Failed}, Attempts: 2, Backoff: 60_000}})
	w.expect(id, Running, "queued 1, succeeded 2")
	w.clock.Step(-48 * time.Hour)
	w.expect(id, Complete, "succeeded 3")
	w.once(4)
}
