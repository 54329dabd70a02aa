package commands

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/clock"
)

// TestMomentsAreThoseOfTheClocks looks at moments often and seldom, and at some that are
// over.
func TestMomentsAreThoseOfTheClocks(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		m := moments{clock: clock.New()}
		for _, wait := range []time.Duration{0, time.Microsecond, calendarEvery / 3, calendarEvery, 7 * calendarEvery, time.Hour} {
			then := m.clock.Steady()
			time.Sleep(wait)
			if got, want := m.at(m.clock.Steady()), time.Now(); !got.Equal(want) || got.Sub(want) != 0 {
				t.Errorf("after %v it is %v, want %v", wait, got, want)
			}
			if got, want := m.at(then), time.Now().Add(-wait); !got.Equal(want) {
				t.Errorf("%v ago it was %v, want %v", wait, got, want)
			}
		}
	})
}

// TestACalendarThatIsSetIsFollowed sets the calendar under moments that have a bearing.
func TestACalendarThatIsSetIsFollowed(t *testing.T) {
	t.Parallel()
	m := moments{clock: clock.New()}
	steady := m.clock.Steady()
	m.latest.Store(&bearing{steady: steady, calendar: time.Now().Add(-time.Hour)})
	if got := m.at(steady + int64(calendarEvery) - 1); time.Since(got) < 30*time.Minute {
		t.Errorf("the system is asked again at once: %v", got)
	}
	if got := m.at(steady + int64(calendarEvery)); time.Since(got) > 30*time.Minute {
		t.Errorf("the calendar is not followed: %v", got)
	}
}
