package rollout

import (
	"strings"
	"time"
	_ "time/tzdata" // windows name time zones, also where the system knows none

	"github.com/netresearch/go-cron"

	"github.com/aibridge/aibridge/protocol"
)

// A Window is a recurring time in which members are asked.
type Window struct {
	Cron     string `json:"cron" len:"1-128" doc:"times at which it opens: minute, hour, day of the month, month, day of the week, such as 0 2 * * SAT. A time that a change of the clocks leaves out opens it at once after"`
	Duration int64  `json:"duration_ms" range:"60000-604800000" doc:"time that it stays open, in milliseconds of real time"`
	Zone     string `json:"timezone,omitempty" len:"1-64" default:"UTC" doc:"of cron, such as Europe/Berlin"`
}

// crontab reads the five fields as crontab(5) has them: if both the day of the
// month and the day of the week are given, either will do.
var crontab = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// schedule is the time when the window opens.
func (w *Window) schedule() (cron.Schedule, *time.Location, error) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil || w.Zone == "Local" {
		return nil, nil, protocol.InvalidParam("window.timezone", "is no time zone of the IANA database, such as Europe/Berlin")
	}
	if strings.Contains(w.Cron, "=") { // TZ=… before the fields, which would pass over the check of the zone
		return nil, nil, protocol.InvalidParam("window.cron", "has a time zone, which is given by window.timezone")
	}
	s, err := crontab.Parse(w.Cron)
	if err != nil {
		return nil, nil, protocol.InvalidParam("window.cron", "cannot be read: "+err.Error())
	}
	return s, zone, nil
}

// check returns the fault of a window, for a rollout between two times.
func (w *Window) check(begin, end time.Time) error {
	if w == nil {
		return nil
	}
	if w.Zone == "" {
		w.Zone = "UTC"
	}
	s, zone, err := w.schedule()
	if err != nil {
		return err
	}
	first := s.Next(begin.In(zone))
	if first.IsZero() {
		return protocol.InvalidParam("window.cron", "names a time that never comes")
	}
	if open, _ := w.at(s, zone, begin); !open && !first.Before(end) {
		return protocol.InvalidParam("window.cron", "opens the window first at "+first.Format(time.RFC3339)+", after valid_until")
	}
	return nil
}

// at reports whether the window is open at a time, and otherwise when it opens
// next, zero for never.
func (w *Window) at(s cron.Schedule, zone *time.Location, now time.Time) (open bool, next time.Time) {
	length := time.Duration(w.Duration) * time.Millisecond
	if opened := s.Next(now.Add(-length).In(zone)); !opened.IsZero() && !opened.After(now) {
		return true, time.Time{}
	}
	return false, s.Next(now.In(zone))
}

// due reports whether a time has come, by the calendar, and by a calendar that
// believes a step forward only once it has lasted: a rollout begun or ended too
// early cannot be taken back.
func (e *Engine) due(at time.Time) bool {
	return !at.After(e.opts.Clock.Now()) && !at.After(e.opts.Clock.Settled())
}

// mayAsk reports whether members may be asked now. The two calendars have to agree
// that the window is open, and either of them ends it all.
func (e *Engine) mayAsk(p *Plan) bool {
	for _, now := range []time.Time{e.opts.Clock.Now(), e.opts.Clock.Settled()} {
		if open, _ := p.opening(now); !open || !now.Before(p.ValidUntil) {
			return false
		}
	}
	return true
}

// opening reports whether members may be asked at a time, and otherwise when.
func (p *Plan) opening(now time.Time) (open bool, next time.Time) {
	if p.Window == nil {
		return true, time.Time{}
	}
	s, zone, err := p.Window.schedule()
	if err != nil {
		return false, time.Time{} // it was checked
	}
	return p.Window.at(s, zone, now)
}
