package bubble

import (
	"runtime"
	"testing"
	"time"
)

func TestABubbleGivesTheProcessorsBack(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	inside := before
	if raceDetector {
		inside = 1
	}
	t.Run("bubbles", func(t *testing.T) {
		for range 3 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				Test(t, func(t *testing.T) {
					if got := runtime.GOMAXPROCS(0); got != inside {
						t.Errorf("%d processors, want %d", got, inside)
					}
					time.Sleep(time.Hour)
				})
			})
		}
	})
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors after, want %d", got, before)
	}
}

// Many timers end at the same moment here, and those that they wake look at
// timers of their own: without [Test] the race detector dies of it.
func TestTimersOfOneMomentDoNotBreakTheRaceDetector(t *testing.T) {
	for range 20 {
		Test(t, func(t *testing.T) {
			done := make(chan bool)
			for range 50 {
				go func() {
					for range 20 {
						timer, other := time.NewTimer(time.Second), time.NewTimer(time.Second)
						time.AfterFunc(time.Second, func() {})
						<-timer.C
						<-other.C
					}
					done <- true
				}()
			}
			for range 50 {
				<-done
			}
		})
	}
}
