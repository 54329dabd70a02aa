package rollout

import "time"

// beat is how often a rollout with a rate asks members.
const beat = time.Second

// A pacer counts who may be asked now. It goes by real time, whatever clocks are
// set to, and begins with one beat's worth.
type pacer struct {
	saved float64
	last  time.Time
}

// allow is how many may be asked now at a rate per minute; 0 is any number.
func (p *pacer) allow(rate float64, now time.Time) int {
	if rate == 0 {
		return maxMembers
	}
	most := max(rate*beat.Minutes(), 1)
	if p.last.IsZero() {
		p.saved = most
	} else {
		p.saved = min(p.saved+rate*now.Sub(p.last).Minutes(), 2*most)
	}
	p.last = now
	return int(p.saved)
}

// took is told who was asked.
func (p *pacer) took(n int) { p.saved -= float64(n) }

// wait is how long it takes until another one may be asked.
func (p *pacer) wait(rate float64) time.Duration {
	if rate == 0 || p.saved >= 1 {
		return beat
	}
	return max(time.Duration((1-p.saved)/rate*float64(time.Minute)), beat)
}
