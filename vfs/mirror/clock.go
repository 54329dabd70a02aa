package mirror

import "time"

// maxAhead is the lead up to which a clock elsewhere is believed.
const maxAhead = 24 * time.Hour

// A clock is hybrid: it follows the wall clock, but never goes back, and is
// never behind what it was told by the VFS. So a change that was made with
// knowledge of another counts as later, even if the wall clocks disagree.
type clock struct {
	last int64 // Unix nanoseconds
	wall func() time.Time
}

// now is later than everything before.
func (c *clock) now() int64 {
	c.last = max(c.last+1, c.wall().UnixNano())
	return c.last
}

// observe learns of a time elsewhere.
func (c *clock) observe(t int64) {
	if t > c.last && t < c.wall().Add(maxAhead).UnixNano() {
		c.last = t
	}
}

// dated is the time of a change that was noticed now and claims to be of
// modified: a file's time can be set at will, so it counts only between the
// last agreement and now.
func (c *clock) dated(modified, agreed int64) int64 {
	now := c.now()
	if modified <= agreed {
		return min(agreed+1, now)
	}
	return min(modified, now)
}
