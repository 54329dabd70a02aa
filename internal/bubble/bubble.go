// Package bubble runs tests whose clock is simulated, as [synctest] does, without
// the crashes of the race detector that Go has there.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test]. Under the race detector the program has one processor
// while a bubble lives: two threads that run timers of one bubble at the same
// time share a race context, and the detector dies of it in one run of fifty
// (https://go.dev/issue/78156). It still finds races: it compares the order of
// events, not their moments.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raceDetector {
		enter()
		defer leave()
	}
	synctest.Test(t, f)
}

var bubbles struct {
	sync.Mutex
	alive      int
	processors int // before the first of those that are alive
}

func enter() {
	bubbles.Lock()
	defer bubbles.Unlock()
	if bubbles.alive == 0 {
		bubbles.processors = runtime.GOMAXPROCS(1)
	}
	bubbles.alive++
}

func leave() {
	bubbles.Lock()
	defer bubbles.Unlock()
	bubbles.alive--
	if bubbles.alive == 0 {
		runtime.GOMAXPROCS(bubbles.processors)
	}
}
