package broker

import "time"

// rideTime is the time that an acknowledgement waits for a packet to the same client,
// so that both leave with one system call.
const rideTime = time.Millisecond

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
}

// ride has the collected acknowledgements leave with the next packet to the
// connection, at the latest when rideTime is over.
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
		t.riders = append(t.riders, rider{c, t.now})
	}
}

// dismount has the acknowledgements leave that have waited for long enough.
func (t *turn) dismount() {
	n := 0
	for ; n < len(t.riders) && t.now-t.riders[n].since >= int64(rideTime); n++ {
		c := t.riders[n].c
		c.mu.Lock()
		if c.riding == t.riders[n].since && c.turn == nil && !c.queued {
			c.walks = walks
			t.touch(c)
		}
		c.mu.Unlock()
	}
	if n > 0 {
		rest := copy(t.riders, t.riders[n:])
		clear(t.riders[rest:])
		t.riders = t.riders[:rest]
	}
}
