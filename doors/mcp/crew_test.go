package mcp

import (
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestACrewRestsAndLeaves tests that goroutines are used again, not more of them rest than
// are allowed, and that none is left when the crew is closed.
func TestACrewRestsAndLeaves(t *testing.T) {
	closed := make(chan struct{})
	c := newCrew(closed)
	var done, all sync.WaitGroup
	release := make(chan struct{})
	for range 2 * mostResting {
		done.Add(1)
		all.Add(1)
		c.run(func() {
			defer done.Done()
			all.Done()
			<-release
		})
	}
	all.Wait() // none waits for another
	close(release)
	done.Wait()
	eventually.Holds(t, "as many rest as may", func() bool { return c.resting.Load() == mostResting })
	done.Add(1)
	c.run(done.Done)
	done.Wait()
	close(closed)
	eventually.Holds(t, "none is left", func() bool { return c.resting.Load() == 0 })
	done.Add(1)
	c.run(done.Done) // still runs, and does not rest
	done.Wait()
	eventually.Holds(t, "none is left", func() bool { return c.resting.Load() == 0 })
}
