package clock

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
)

func TestASteadyClockIsNotSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New()
		from, began := c.Steady(), c.Now()
		for _, step := range []time.Duration{time.Hour, -3 * time.Hour} {
			c.Step(step)
		}
		c.Advance(time.Minute)
		time.Sleep(time.Second)
		if d := time.Duration(c.Steady() - from); d != 61*time.Second {
			t.Errorf("%v have passed, want 61 s", d)
		}
		if d := c.Now().Sub(began); d != 61*time.Second-2*time.Hour {
			t.Errorf("%v by the calendar, want 61 s less two hours", d)
		}
	})
}

func TestAClockThatIsAheadIsBelievedOnceThatLasts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New()
		off := func() time.Duration { return c.Settled().Sub(time.Now()) }
		expect := func(what string, want time.Duration) {
			t.Helper()
			if got := off(); got != want {
				t.Errorf("%s: settled is %v ahead, want %v", what, got, want)
			}
		}
		expect("at first", 0)
		c.Step(time.Hour)
		expect("set forward", 0)
		time.Sleep(Hold - time.Second)
		expect("soon after", 0)
		c.Step(-time.Hour)
		expect("set right", 0)
		c.Step(time.Hour)
		expect("set forward again", 0)
		time.Sleep(Hold)
		expect("when it has lasted", time.Hour)
		c.Step(time.Hour)
		expect("one more hour", time.Hour)
		time.Sleep(Hold / 2)
		c.Step(time.Hour)
		expect("and another", time.Hour)
		time.Sleep(Hold / 2)
		expect("which has not lasted", time.Hour)
		c.Step(-4 * time.Hour)
		expect("set back", -time.Hour)
	})
}

// What drifts is followed: it was not set.
func TestAClockThatIsSlewedIsFollowed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New()
		for range 100 {
			time.Sleep(time.Minute)
			c.Step(time.Second)
			if got, want := c.Settled(), c.Now(); !got.Equal(want) {
				t.Fatalf("settled is %v, the calendar %v", got, want)
			}
		}
	})
}

func TestADeadlineIsStoredByTheCalendar(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		before := New()
		before.Step(time.Hour) // was wrong, and the deadline is right all the same
		stored := before.Wall(before.Steady() + int64(time.Minute))
		if want := before.Now().Add(time.Minute); !stored.Equal(want) {
			t.Errorf("stored is %v, want %v", stored, want)
		}
		for step, want := range map[time.Duration]time.Duration{
			time.Hour: time.Minute, 0: 2 * time.Minute, 2 * time.Hour: time.Minute - time.Hour,
		} {
			after := New()
			after.Step(step)
			if got := time.Duration(after.FromWall(stored, 2*time.Minute) - after.Steady()); got != want {
				t.Errorf("read by a clock that is %v ahead: %v left, want %v", step, got, want)
			}
		}
	})
}
