package rollout

import "time"

// beat is the interval at which a rollout with a rate asks members.
const beat = time.Second

// A pacer counts the members that may be asked now. It goes by the steady clock,
// which is never set, and begins with one beat's worth, or where another process
// left off.
type pacer struct {
	begun bool
	saved float64
	last  int64 // time of the steady clock, nanoseconds
}

// goOn begins with the allowance saved since members were asked last.
func (p *pacer) goOn(asked int64) { p.begun, p.last = true, asked }

// allow is the number of members that may be asked now at a rate per minute; 0 is
// any number.
func (p *pacer) allow(rate float64, now int64) int {
	if rate == 0 {
		return maxMembers
	}
	most := max(rate*beat.Minutes(), 1)
	if p.begun {
		p.saved = min(p.saved+rate*time.Duration(now-p.last).Minutes(), 2*most)
	} else {
		p.begun, p.saved = true, most
	}
	p.last = now
	return int(p.saved)
}

// took counts n members that were asked.
func (p *pacer) took(n int) { p.saved -= float64(n) }

// wait is the time that it takes until another one may be asked.
func (p *pacer) wait(rate float64) time.Duration {
	if rate == 0 || p.saved >= 1 {
		return beat
	}
	return max(time.Duration((1-p.saved)/rate*float64(time.Minute)), beat)
}
