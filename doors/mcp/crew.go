package mcp

import "sync/atomic"

// A crew runs calls on goroutines that rest between them: the stack of a new one would
// grow, and be copied, several times on the way through a tool.
type crew struct {
	idle    chan func() // hands calls to those that rest
	resting atomic.Int32
	closed  <-chan struct{} // ends their rest
}

// mostResting is the number of goroutines that rest at a time.
const mostResting = 64

func newCrew(closed <-chan struct{}) *crew { return &crew{idle: make(chan func()), closed: closed} }

// run runs f on a goroutine of the crew. It does not wait.
func (c *crew) run(f func()) {
	select {
	case c.idle <- f:
	default:
		go c.work(f)
	}
}

func (c *crew) work(f func()) {
	for f != nil {
		f()
		f = c.rest()
	}
}

// rest waits for something to run. It returns nil if enough others do, and when the crew
// is closed.
func (c *crew) rest() func() {
	defer c.resting.Add(-1)
	if c.resting.Add(1) > mostResting {
		return nil
	}
	select {
	case f := <-c.idle:
		return f
	case <-c.closed:
		return nil
	}
}
