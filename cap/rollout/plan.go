package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Plan holds the pace, canary and bounds of a rollout. Its fields are params of
// group.dispatch.
type Plan struct {
	Rollout    *Pace     `json:"rollout,omitempty" doc:"pace at which members are asked; as fast as they answer when absent"`
	Abort      []Abort   `json:"abort,omitempty" len:"1-3" doc:"time at which it stops by itself; never when absent"`
	Retry      *Retry    `json:"retry,omitempty" doc:"members that are asked again; none when absent"`
	Window     *Window   `json:"window,omitempty" doc:"times at which members are asked; always when absent. Members that were asked may finish after them"`
	ScheduleAt time.Time `json:"schedule_at,omitzero" doc:"time at which it begins, RFC 3339, up to a year from now; at once when absent"`
	ValidUntil time.Time `json:"valid_until,omitzero" doc:"time from which nobody is asked any more, RFC 3339, up to 90 days after it begins; 7 days after when absent"`
	Continuous bool      `json:"continuous,omitempty" doc:"whoever the group's selector chooses later, until valid_until, is asked too"`
}

// A Pace bounds the rate at which members are asked.
type Pace struct {
	Rate        int          `json:"rate_per_minute,omitempty" range:"1-100000" doc:"members asked in a minute; with exponential, the most it grows to"`
	Exponential *Exponential `json:"exponential,omitempty" doc:"a rate that grows with success"`
	Canary      *Canary      `json:"canary,omitempty" doc:"a few members that are asked before all others"`
	InProgress  int          `json:"max_in_progress,omitempty" range:"1-10000" default:"1000" doc:"members that are asked and have not answered, at most"`
}

// Exponential is a rate that grows with success.
type Exponential struct {
	Base      int     `json:"base" range:"1-100000" doc:"members asked in a minute at first"`
	Factor    float64 `json:"factor" range:"1-10" doc:"by which the rate grows each time, more than 1"`
	OnSuccess int     `json:"on_success" range:"1-100000" doc:"number of members that have to succeed for it to grow"`
}

// A Canary is the members that are asked first.
type Canary struct {
	Count   int    `json:"count" range:"1-10000" doc:"number"`
	Wait    string `json:"then_wait_for" enum:"success,approval" doc:"condition for asking the others: that enough of them succeed, or that somebody approves when all of them have ended"`
	Percent int    `json:"success_percent,omitempty" range:"1-100" doc:"with success, how many percent of them have to; 100 when absent"`
}

// An Abort stops a rollout by itself.
type Abort struct {
	On      string `json:"on" enum:"failed,rejected,timed_out,any" doc:"which ends of members count; any: all three"`
	Percent int    `json:"percent" range:"1-100" doc:"of the members that have ended, how many percent are too many"`
	After   int    `json:"after" range:"1-100000" doc:"number of members that have to have ended before that counts"`
}

// Retry is the rule by which members are asked again.
type Retry struct {
	On       []State `json:"on" len:"1-3" enum:"failed,rejected,timed_out" doc:"which ends; timed_out may run the capability twice, as nobody knows whether the first attempt did"`
	Attempts int     `json:"attempts" range:"2-10" doc:"attempts at a member, the first one included"`
	Backoff  int64   `json:"backoff_ms,omitempty" range:"0-86400000" default:"60000" doc:"milliseconds before the second attempt; they double each time, up to a day"`
}

// Bounds of a plan.
const (
	maxLater    = 366 * 24 * time.Hour
	maxValidity = 90 * 24 * time.Hour
	validity    = 7 * 24 * time.Hour
	maxBackoff  = 24 * time.Hour
)

// Given reports whether any field of a plan is set.
func (p *Plan) Given() bool {
	return p.Rollout != nil || p.Abort != nil || p.Retry != nil || p.Window != nil || !p.ScheduleAt.IsZero() || !p.ValidUntil.IsZero() || p.Continuous
}

// Complete checks a plan at a time and fills in its defaults.
func (p *Plan) Complete(now time.Time) error {
	begin := now
	if !p.ScheduleAt.IsZero() {
		if p.ScheduleAt.Before(now) || p.ScheduleAt.After(now.Add(maxLater)) {
			return protocol.InvalidParam("schedule_at", "must be in the future, by a year at most")
		}
		begin = p.ScheduleAt
	}
	if p.ValidUntil.IsZero() {
		p.ValidUntil = begin.Add(validity)
	}
	if !p.ValidUntil.After(begin) || p.ValidUntil.After(begin.Add(maxValidity)) {
		return protocol.InvalidParam("valid_until", "must be after the beginning, by 90 days at most")
	}
	if p.Rollout == nil {
		p.Rollout = &Pace{}
	}
	if p.Rollout.InProgress == 0 {
		p.Rollout.InProgress = 1000
	}
	for _, check := range []func() error{p.Rollout.check, p.checkAborts, p.Retry.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return p.Window.check(begin, p.ValidUntil)
}

func (p *Pace) check() error {
	if e := p.Exponential; e != nil {
		if e.Factor <= 1 {
			return protocol.InvalidParam("rollout.exponential.factor", "must be more than 1, or the rate never grows; rate_per_minute is a rate that stays")
		}
		if p.Rate != 0 && p.Rate < e.Base {
			return protocol.InvalidParam("rollout.rate_per_minute", "is less than exponential.base, which it bounds")
		}
	}
	if c := p.Canary; c != nil && c.Wait == "approval" && c.Percent != 0 {
		return protocol.InvalidParam("rollout.canary.success_percent", "does not apply to then_wait_for approval; leave it out")
	}
	return nil
}

func (p *Plan) checkAborts() error {
	for i := range p.Abort {
		for j := range i {
			if p.Abort[i].On == p.Abort[j].On {
				return protocol.InvalidParam(fmt.Sprintf("abort[%d].on", i), "is there twice")
			}
		}
	}
	return nil
}

func (r *Retry) check() error {
	if r == nil {
		return nil
	}
	for i, s := range r.On {
		if slices.Contains(r.On[:i], s) {
			return protocol.InvalidParam(fmt.Sprintf("retry.on[%d]", i), "is there twice")
		}
	}
	return nil
}

// after is the time to wait before another attempt, and whether there is one.
func (r *Retry) after(end State, attempts int) (time.Duration, bool) {
	if r == nil || attempts >= r.Attempts || !slices.Contains(r.On, end) {
		return 0, false
	}
	wait := time.Duration(r.Backoff) * time.Millisecond
	for range attempts - 1 {
		wait = min(2*wait, maxBackoff)
	}
	return wait, true
}

// rate is the number of members that may be asked in a minute when so many have
// succeeded, 0 for any number.
func (p *Pace) rate(succeeded int) float64 {
	e := p.Exponential
	if e == nil {
		return float64(p.Rate)
	}
	most := float64(p.Rate)
	if most == 0 {
		most = 100_000
	}
	rate := float64(e.Base)
	for range succeeded / e.OnSuccess {
		if rate *= e.Factor; rate >= most {
			return most
		}
	}
	return rate
}

// exceeded returns the reason why a rollout is to stop, "" for none.
func (p *Plan) exceeded(c *Counts) string {
	for _, a := range p.Abort {
		n, ended := c.on(a.On), c.ended()
		if ended >= a.After && n*100 >= a.Percent*ended {
			return fmt.Sprintf("%d of %d members that ended %s: %d percent stop it", n, ended, said(a.On), a.Percent)
		}
	}
	return ""
}

func said(on string) string {
	switch on {
	case "rejected":
		return "rejected it"
	case "timed_out":
		return "timed out"
	}
	return "failed"
}
