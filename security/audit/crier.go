package audit

import "time"

// The rate at which events of security are published to operators.
const (
	tellRate  = 10 // a second
	tellBurst = 50 // at once
)

// A crier publishes entries of security to operators, and when there are too many,
// the number of the others.
type crier struct {
	publish    func(Entry)
	allowance  float64
	at         time.Time
	suppressed uint64
}

func (c *crier) tell(e Entry, now time.Time) {
	if c.publish == nil {
		return
	}
	if c.at.IsZero() {
		c.allowance = tellBurst
	} else {
		c.allowance = min(tellBurst, c.allowance+tellRate*max(0, now.Sub(c.at).Seconds()))
	}
	c.at = now
	if c.allowance < 1 {
		c.suppressed++
		return
	}
	c.allowance--
	if c.suppressed > 0 {
		details := map[string]string{"suppressed": number(c.suppressed)}
		for name, value := range e.Details {
			details[name] = value
		}
		e.Details = details
		c.suppressed = 0
	}
	c.publish(e)
}
