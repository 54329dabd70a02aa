package broker

import "time"

// rideTime is the time that an acknowledgement waits for a packet to the same client,
// so that both leave with one system call. What the reader does meanwhile is not
// counted: the packet is behind that.
const rideTime = time.Millisecond

// longestRide bounds the wait for a reader that always has something to do.
const longestRide = 16 * time.Millisecond

// mostRiding bounds the acknowledgements that wait so, in bytes: a client that
// sends much at once is not kept waiting for them.
const mostRiding = 64

// walks is the number of times that the acknowledgements of a connection leave at once
// after some have waited in vain.
const walks = 16

// A rider is a connection whose acknowledgements wait for a packet.
type rider struct {
	c     *conn
	since int64
	idle  time.Duration // of the reader until then
}

// ride has the collected acknowledgements leave with the next packet to the
// connection, or when they have waited for long enough.
func (t *turn) ride(c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.out.add(t.acks)
	c.noteOut(t.acks)
	switch {
	case c.turn != nil || c.queued: // somebody is about to flush
	case c.riding != 0:
		if c.out.size > mostRiding {
			t.touch(c)
		}
	case c.walks > 0:
		c.walks--
		t.touch(c)
	default:
		c.riding = t.now
		t.riders = append(t.riders, rider{c, t.now, t.idle})
	}
}

// dismount has the acknowledgements leave that have waited for long enough.
func (t *turn) dismount() {
	n := 0
	for n < len(t.riders) && t.arrives(&t.riders[n]) {
		n++
	}
	if n > 0 {
		rest := copy(t.riders, t.riders[n:])
		clear(t.riders[rest:])
		t.riders = t.riders[:rest]
	}
}

// arrives reports whether a connection's acknowledgements wait no more: they have left,
// or leave with this turn.
func (t *turn) arrives(r *rider) bool {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.riding != r.since || c.turn != nil || c.queued:
		return true
	case t.idle-r.idle < rideTime && t.now-r.since < int64(longestRide):
		return false
	}
	c.walks = walks
	t.touch(c)
	return true
}
