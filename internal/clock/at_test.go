package clock

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
)

func TestAnAppointmentIsKeptByTheCalendar(t *testing.T) {
	for name, test := range map[string]struct {
		ahead time.Duration // when it is made
		step  time.Duration // of the clock, 65 seconds later
		after time.Duration // is when it is kept
	}{
		"in time":                 {time.Hour, 0, time.Hour},
		"at once":                 {-time.Hour, 0, 0},
		"the machine has slept":   {time.Hour, 2 * time.Hour, 70 * time.Second},
		"the clock was set ahead": {time.Hour, 30 * time.Minute, 30 * time.Minute},
		"the clock was set back":  {time.Hour, -time.Hour, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := New()
				kept := make(chan struct{})
				start := time.Now()
				defer c.At(c.Now().Add(test.ahead), func() { close(kept) })()
				time.AfterFunc(65*time.Second, func() { c.Step(test.step) })
				<-kept
				if after := time.Since(start); after != test.after {
					t.Errorf("kept after %v, want %v", after, test.after)
				}
			})
		})
	}
}

func TestAnAppointmentCanBeForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New()
		stop := c.At(c.Now().Add(time.Minute), func() { t.Error("it is kept") })
		time.Sleep(30 * time.Second)
		stop()
		stop()
		time.Sleep(time.Hour)
	})
}
