package rollout

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/registry/ask"
)

// once checks how many invocations there were, none of them sent twice.
func (w *world) once(invocations int) {
	w.t.Helper()
	if n, once := w.field.total(); !once || invocations >= 0 && n != invocations {
		w.t.Errorf("%d invocations, each once: %v; want %d", n, once, invocations)
	}
}

// tidy waits until the waves of what has ended are gone. A bridge that dies between
// the taking of a wave's results and its removal leaves it to the sweep of a later
// one: so a test that checks this at its end checks it before each crash too.
func (w *world) tidy() {
	w.t.Helper()
	eventually.Holds(w.t, "no wave is left", func() bool { return w.dispatches.Len() == 0 && w.batches.Len() == 0 })
}

func TestARolloutReachesEverybodyOnce(t *testing.T) {
	w := newWorld(t, 1000).boot()
	w.field.behave = func(agent protocol.AgentID, _ int) ask.Notice {
		switch agent {
		case device(1):
			return broken
		case device(2):
			return refused
		}
		return answered
	}
	id := w.start(Plan{})
	v := w.expect(id, Partial, "succeeded 998, failed 1, rejected 1")
	w.once(1000)
	w.tidy()
	for place, m := range w.engine.Members(v.Rollout, 0) {
		if m.Attempts != 1 || m.Asked != m.Agent || place == 1 && string(m.Data) != `{"done":true}` || place == 2 && (m.Error == nil || m.Error.Message != "flash failed") {
			t.Errorf("member %d is %+v", place, m)
		}
	}
}

func TestTooManyFailuresStopARolloutUntilItIsResumed(t *testing.T) {
	w := newWorld(t, 2000).boot()
	w.field.behave = func(agent protocol.AgentID, _ int) ask.Notice {
		if fails(agent, 10) {
			return broken
		}
		return answered
	}
	id := w.start(Plan{Rollout: &Pace{InProgress: 100}, Abort: []Abort{{"failed", 5, 200}}})
	v := w.expect(id, Aborted, "")
	eventually.Holds(t, "who was asked has answered", func() bool { v, _ = w.engine.Get(id); return v.Counts.InProgress == 0 })
	if v.Counts.ended() < 200 || v.Counts.Queued < 1000 || !strings.Contains(v.Reason, "percent stop it") {
		t.Errorf("it stopped at %s: %s", inWords(v.Counts), v.Reason)
	}
	w.field.change(func() { w.field.behave = func(protocol.AgentID, int) ask.Notice { return answered } })
	if _, err := w.engine.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	v = w.expect(id, Partial, "")
	if _, err := w.engine.Retry(t.Context(), id, []State{Failed}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	w.expect(id, Complete, "succeeded 2000")
	w.once(2000 + v.Counts.Failed)
	for _, name := range []string{"task.aborted", "task.running", "task.partial", "task.complete"} {
		eventually.Holds(t, "somebody is told "+name, func() bool { return w.heard(name) })
	}
}

func TestFailedMembersAreAskedAgainAsOftenAsDeclared(t *testing.T) {
	w := newWorld(t, 60).boot()
	w.field.behave = func(agent protocol.AgentID, attempt int) ask.Notice {
		if agent < device(20) && attempt < 3 || agent < device(10) {
			return broken
		}
		if agent >= device(50) {
			return refused
		}
		return answered
	}
	id := w.start(Plan{Retry: &Retry{On: []State{Failed}, Attempts: 3, Backoff: 1000}})
	eventually.Holds(t, "all were asked", func() bool { c, _ := w.engine.Counts(id); return c.Retried == 20 && c.InProgress == 0 })
	w.once(60)
	w.later(time.Second)
	eventually.Holds(t, "some were asked again", func() bool { n, _ := w.field.total(); return n == 80 })
	w.later(time.Second)
	eventually.Holds(t, "nobody else was asked before its time", func() bool { c, _ := w.engine.Counts(id); return c.Retried == 20 && c.InProgress == 0 })
	w.once(80)
	w.later(time.Second)
	w.expect(id, Partial, "succeeded 40, failed 10, rejected 10")
	w.once(100)
}

func TestACanaryGoesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		percent int
		broken  uint32 // percent of the devices
		passes  bool
	}{
		"all succeed":       {0, 0, true},
		"not all do":        {0, 30, false},
		"enough of them do": {50, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 500).boot()
			w.field.silent = true
			id := w.start(Plan{Rollout: &Pace{Canary: &Canary{Count: 40, Wait: "success", Percent: c.percent}}})
			w.expect(id, Running, "queued 460, in_progress 40")
			w.crash()
			w.boot()
			w.expect(id, Running, "queued 460, in_progress 40")
			w.field.change(func() {
				w.field.silent = false
				w.field.behave = func(agent protocol.AgentID, _ int) ask.Notice {
					if fails(agent, c.broken) {
						return broken
					}
					return answered
				}
				for id, q := range w.field.open {
					delete(w.field.open, id)
					q.Listener.Hear(w.field.behave(q.Agent, 1))
				}
			})
			if c.passes {
				v := w.expect(id, outcomeOf(c.broken), "")
				w.once(500)
				if !v.Passed {
					t.Error("the canary is not passed")
				}
				return
			}
			v := w.expect(id, Aborted, "")
			w.once(40)
			if !strings.Contains(v.Reason, "canary") {
				t.Error(v.Reason)
			}
		})
	}
}

func outcomeOf(broken uint32) Status {
	if broken > 0 {
		return Partial
	}
	return Complete
}

func TestSomebodyApprovesOfACanary(t *testing.T) {
	for _, approved := range []bool{true, false} {
		w := newWorld(t, 50).boot()
		id := w.start(Plan{Rollout: &Pace{Canary: &Canary{Count: 5, Wait: "approval"}}})
		w.expect(id, Waiting, "queued 45, succeeded 5")
		w.crash()
		w.boot()
		if _, err := w.engine.Pause(t.Context(), id, "lunch"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Resume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.expect(id, Waiting, "queued 45, succeeded 5")
		eventually.Holds(t, "somebody is asked", func() bool { w.people.mu.Lock(); defer w.people.mu.Unlock(); return len(w.people.asked) == 1 })
		w.people.mu.Lock()
		w.people.answer = Answer{Decided: true, Approved: approved, Reason: "denied by bob: not today"}
		w.people.mu.Unlock()
		w.engine.Wake(id)
		if approved {
			w.expect(id, Complete, "succeeded 50")
		} else if v := w.expect(id, Called, "succeeded 5, cancelled 45"); v.Reason != "denied by bob: not today" {
			t.Error(v.Reason)
		}
		w.crash()
	}
}

func TestMembersThatAreAwayWait(t *testing.T) {
	w := newWorld(t, 10).boot()
	w.field.devices[device(3)], w.field.devices[device(4)] = false, false
	id := w.start(Plan{})
	w.expect(id, Running, "queued 2, succeeded 8")
	w.field.change(func() { w.field.devices[device(3)] = true; delete(w.field.devices, device(4)) })
	w.expect(id, Complete, "succeeded 9, removed 1")
}

func TestNobodyIsAskedAfterTheEnd(t *testing.T) {
	w := newWorld(t, 10).boot()
	w.field.devices[device(3)] = false
	id := w.start(Plan{ValidUntil: w.now().Add(time.Hour)})
	w.expect(id, Running, "queued 1, succeeded 9")
	w.later(time.Hour)
	v := w.expect(id, Partial, "succeeded 9, timed_out 1")
	w.field.change(func() { w.field.devices[device(3)] = true })
	if _, err := w.engine.Retry(t.Context(), id, []State{TimedOut}, time.Time{}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Error(err)
	}
	if _, err := w.engine.Retry(t.Context(), id, []State{TimedOut}, w.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.expect(id, Complete, "succeeded 10")
	if v.EndedAt == 0 {
		t.Error("it did not end")
	}
}

func TestARolloutIsPausedAndCancelled(t *testing.T) {
	w := newWorld(t, 100).boot()
	w.field.silent = true
	id := w.start(Plan{Rollout: &Pace{InProgress: 30}})
	w.expect(id, Running, "queued 70, in_progress 30")
	if _, err := w.engine.Pause(t.Context(), id, "a storm"); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "30 are asked", func() bool { n, _ := w.field.total(); return n == 30 })
	w.field.answer(answered)
	w.expect(id, Paused, "queued 70, succeeded 30")
	w.tidy()
	w.crash()
	w.boot()
	w.expect(id, Paused, "queued 70, succeeded 30")
	if _, err := w.engine.Pause(t.Context(), id, ""); protocol.CodeOf(err) != protocol.InvalidState {
		t.Error(err)
	}
	if _, err := w.engine.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.expect(id, Running, "queued 40, in_progress 30, succeeded 30")
	if err := w.engine.Cancel(t.Context(), id, "wrong version"); err != nil {
		t.Fatal(err)
	}
	if v := w.expect(id, Called, "succeeded 30, cancelled 70"); v.Reason != "wrong version" {
		t.Error(v.Reason)
	}
	if err := w.engine.Cancel(t.Context(), id, ""); protocol.CodeOf(err) != protocol.InvalidState {
		t.Error(err)
	}
	w.once(60)
	w.tidy()
}

// A credential that is taken back ends what was begun with it. One whose time is
// over lets nobody else be asked, and those that were finish. It is the same for
// a bridge that finds the credential ended when it starts.
func TestARolloutEndsWithTheCredentialOfItsCaller(t *testing.T) {
	revoked := protocol.Errorf(protocol.CredentialInvalid, "the key was revoked")
	expired := protocol.Errorf(protocol.CredentialInvalid, "the key has expired").With("reason", grant.ReasonExpired)
	for name, c := range map[string]struct {
		why     error
		restart bool
		finish  bool // who was asked
		status  Status
		counts  string
	}{
		"revoked":              {revoked, false, false, Called, "cancelled 100"},
		"revoked while away":   {revoked, true, false, Called, "cancelled 100"},
		"expired":              {expired, false, true, Partial, "succeeded 30, timed_out 70"},
		"expired while away":   {expired, true, true, Partial, "succeeded 30, timed_out 70"},
		"expired, and nothing": {expired, false, false, Running, "in_progress 30, timed_out 70"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 100).boot()
			w.field.silent = true
			id := w.start(Plan{Rollout: &Pace{InProgress: 30}})
			w.expect(id, Running, "queued 70, in_progress 30")
			eventually.Holds(t, "30 are asked", func() bool { n, _ := w.field.total(); return n == 30 })
			if c.restart {
				w.crash()
			}
			w.authority.end(c.why)
			if c.restart {
				w.boot()
			}
			if c.finish {
				w.expect(id, Running, "in_progress 30, timed_out 70")
				eventually.Holds(t, "30 have answered", func() bool {
					w.field.answer(answered)
					c, _ := w.engine.Counts(id)
					return c.Succeeded == 30
				})
			}
			if v := w.expect(id, c.status, c.counts); v.Reason != c.why.(*protocol.Error).Message {
				t.Errorf("the reason is %q", v.Reason)
			}
			w.once(30)
		})
	}
}

func TestARolloutWaitsForItsTimeAndItsWindow(t *testing.T) {
	w := newWorld(t, 10)
	at := time.Date(2030, 5, 4, 12, 0, 0, 0, time.UTC) // a Saturday
	w.later(time.Until(at))
	w.boot()
	id := w.start(Plan{ScheduleAt: at.Add(10 * time.Hour), Window: &Window{Cron: "0 2 * * *", Duration: 3_600_000, Zone: "Europe/Berlin"}})
	w.expect(id, Scheduled, "queued 10")
	w.later(11 * time.Hour)
	if v := w.expect(id, Running, "queued 10"); !v.Opens.Equal(time.Date(2030, 5, 5, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("opens at %v", v.Opens)
	}
	w.crash()
	w.boot()
	w.later(90 * time.Minute)
	w.expect(id, Complete, "succeeded 10")
}

func TestWhoJoinsLaterIsAskedToo(t *testing.T) {
	w := newWorld(t, 300).boot()
	id := w.start(Plan{Continuous: true, ValidUntil: w.now().Add(time.Hour)})
	w.expect(id, Running, "succeeded 300")
	w.crash()
	w.field.change(func() {
		for i := range 400 {
			w.field.devices[device(1000+i)] = true
		}
	})
	w.boot()
	w.expect(id, Running, "succeeded 700")
	w.once(700)
	w.later(time.Hour)
	w.expect(id, Complete, "succeeded 700")
}

func TestARateIsKept(t *testing.T) {
	var p pacer
	now, asked := int64(0), 0
	for range 600 { // ten minutes, looked at every second
		n := p.allow(90, now)
		p.took(n)
		asked += n
		now += int64(time.Second)
	}
	if asked < 898 || asked > 902 {
		t.Errorf("%d asked at 90 a minute in ten", asked)
	}
	if n := p.allow(90, now+int64(time.Hour)); n > 3 {
		t.Errorf("%d asked at once after an hour", n)
	}
	grows := Pace{Exponential: &Exponential{Base: 10, Factor: 2, OnSuccess: 50}, Rate: 70}
	for succeeded, want := range map[int]float64{0: 10, 49: 10, 50: 20, 100: 40, 150: 70, 100_000: 70} {
		if got := grows.rate(succeeded); got != want {
			t.Errorf("%g a minute after %d, want %g", got, succeeded, want)
		}
	}
}

func TestBadPlansNameTheField(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for want, p := range map[string]Plan{
		"window.cron: names a time that never comes":                                             {Window: &Window{Cron: "0 0 30 2 *", Duration: 60_000}},
		"window.cron: opens the window first at 2030-06-01T00:00:00Z, after valid_until":         {Window: &Window{Cron: "0 0 1 6 *", Duration: 60_000}},
		"window.cron: cannot be read":                                                            {Window: &Window{Cron: "sometimes", Duration: 60_000}},
		"window.cron: has a time zone, which is given by window.timezone":                        {Window: &Window{Cron: "TZ=Local 0 0 * * *", Duration: 60_000}},
		"window.timezone: is no time zone of the IANA database, such as Europe/Berlin":           {Window: &Window{Cron: "0 0 * * *", Duration: 60_000, Zone: "Mars/Olympus"}},
		"schedule_at: must be in the future, by a year at most":                                  {ScheduleAt: now.Add(-time.Minute)},
		"valid_until: must be after the beginning, by 90 days at most":                           {ScheduleAt: now.Add(time.Hour), ValidUntil: now.Add(time.Minute)},
		"rollout.exponential.factor: must be more than 1":                                        {Rollout: &Pace{Exponential: &Exponential{Base: 1, Factor: 1, OnSuccess: 1}}},
		"rollout.rate_per_minute: is less than exponential.base":                                 {Rollout: &Pace{Rate: 5, Exponential: &Exponential{Base: 10, Factor: 2, OnSuccess: 1}}},
		"rollout.canary.success_percent: does not apply to then_wait_for approval; leave it out": {Rollout: &Pace{Canary: &Canary{Count: 1, Wait: "approval", Percent: 5}}},
		"abort[1].on: is there twice":                                                            {Abort: []Abort{{"failed", 1, 1}, {"failed", 2, 2}}},
		"retry.on[1]: is there twice":                                                            {Retry: &Retry{On: []State{Failed, Failed}, Attempts: 2}},
	} {
		err := protocol.AsError(p.Complete(now))
		if err == nil {
			t.Errorf("nothing is wrong, want %s", want)
			continue
		}
		field, _ := err.Details["param_name"].(string)
		reason, _ := err.Details["reason"].(string)
		if got := field + ": " + reason; !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWindowsKeepToTheClocksOfTheirZone(t *testing.T) {
	w := Window{Cron: "30 2 * * *", Duration: 3_600_000, Zone: "Europe/Berlin"}
	s, zone, err := w.schedule()
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{
		"2030-01-10T01:29:00Z": false, // 02:29 in winter
		"2030-01-10T01:30:00Z": true,
		"2030-01-10T02:29:00Z": true,
		"2030-01-10T02:31:00Z": false,
		"2030-07-10T00:30:00Z": true, // 02:30 in summer
		"2030-07-10T01:31:00Z": false,
		"2030-03-31T00:59:00Z": false, // 01:59, before the clocks leave out 02:30
		"2030-03-31T01:30:00Z": true,  // 03:30
		"2030-10-27T00:45:00Z": true,  // 02:45, before the clocks are set back
		"2030-10-27T03:00:00Z": false, // 04:00
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if open, next := w.at(s, zone, now); open != want || !open && !next.After(now) {
			t.Errorf("at %s it is open: %v, next %v", at, open, next)
		}
	}
}

// Whichever write is the last before the bridge dies, the next one goes on, and
// nobody is asked twice.
func TestARolloutGoesOnWhicheverWriteWasTheLast(t *testing.T) {
	for last := range 30 {
		w := newWorld(t, 600).boot()
		w.dieAfter(last)
		p := Plan{Rollout: &Pace{InProgress: 200}}
		if err := p.Complete(w.now()); err != nil {
			t.Fatal(err)
		}
		o := Order{Command: dispatch.Command{Space: protocol.DefaultSpace, Cap: "cap", Group: "group", Capability: "update", Params: json.RawMessage(`{}`)}, Caller: dispatch.CallerOf(alice), Plan: p, Patience: time.Hour}
		for i := range 600 {
			o.Members = append(o.Members, Member{Skill: "update", Agent: device(i), State: Queued})
		}
		r, err := w.engine.Start(t.Context(), o)
		if err != nil { // it died before the rollout was stored: nobody may be asked
			w.once(0)
			w.crash()
			continue
		}
		w.awaitDeath()
		w.crash()
		w.field.change(func() { clear(w.field.open) })
		w.boot()
		w.expect(r.ID, Complete, "succeeded 600")
		w.once(600)
		w.later(2 * time.Hour)
		w.engine.forget()
		if n := w.dispatches.Len(); n != 0 {
			t.Errorf("%d waves are left after write %d", n, last)
		}
		w.crash()
	}
}

func TestRolloutsAreBounded(t *testing.T) {
	w := newWorld(t, 5)
	w.edit = func(o *Options) { o.MaxOwn = 2 }
	w.boot()
	w.field.silent = true
	w.start(Plan{})
	w.start(Plan{})
	p := Plan{}
	if err := p.Complete(w.now()); err != nil {
		t.Fatal(err)
	}
	_, err := w.engine.Start(context.Background(), Order{Command: dispatch.Command{Space: "default", Capability: "update", Params: json.RawMessage(`{}`)}, Caller: dispatch.CallerOf(alice), Plan: p})
	if protocol.CodeOf(err) != protocol.Busy {
		t.Error(err)
	}
	if _, err := w.engine.Start(context.Background(), Order{Members: make([]Member, maxMembers+1)}); protocol.CodeOf(err) != protocol.LimitReached {
		t.Error(err)
	}
	large := Order{Command: dispatch.Command{Params: make([]byte, maxCommand), Extension: []byte{'1'}}}
	if _, err := w.engine.Start(context.Background(), large); protocol.CodeOf(err) != protocol.PayloadTooLarge {
		t.Error(err)
	}
}

// A page of members begins where the one before ended, in whichever part that is.
func TestMembersAreListedFromAnyPlace(t *testing.T) {
	w := newWorld(t, 2*partSize+10).boot()
	w.field.silent = true
	id := w.start(Plan{})
	r, _ := w.engine.Find(id)
	for _, behind := range []int{-1, 0, 1, partSize - 1, partSize, partSize + 1, 2*partSize + 9, 2*partSize + 10, 1 << 40} {
		next := max(behind, 0) + 1
		for place, m := range w.engine.Members(r, behind) {
			if place != next || m.Agent != device(place-1) {
				t.Fatalf("behind %d place %d is %s, want place %d", behind, place, m.Agent, next)
			}
			next++
		}
		if last := max(2*partSize+10, max(behind, 0)); next != last+1 {
			t.Errorf("behind %d the last is %d, want %d", behind, next-1, last)
		}
	}
}

// TestASpaceHasHalfOfAllRollouts has one space take what it can: another one finds
// room, and its ended rollouts stay.
func TestASpaceHasHalfOfAllRollouts(t *testing.T) {
	w := newWorld(t, 5)
	w.edit = func(o *Options) { o.MaxRunning, o.MaxKept = 4, 6*partSize }
	w.boot()
	start := func(space protocol.SpaceID) (protocol.TaskID, error) {
		t.Helper()
		p := Plan{}
		if err := p.Complete(w.now()); err != nil {
			t.Fatal(err)
		}
		caller := *alice
		caller.Space = space
		r, err := w.engine.Start(t.Context(), Order{
			Command: dispatch.Command{Space: space, Capability: "update", Params: json.RawMessage(`{}`)}, Caller: dispatch.CallerOf(&caller), Plan: p, Patience: time.Hour,
			Members: []Member{{Skill: "update", Agent: device(0), State: Queued}},
		})
		if err != nil {
			return "", err
		}
		return r.ID, nil
	}
	theirs, err := start("theirs")
	if err != nil {
		t.Fatal(err)
	}
	w.expect(theirs, Complete, "succeeded 1")
	for range 4 {
		id, err := start("default")
		if err != nil {
			t.Fatal(err)
		}
		w.expect(id, Complete, "succeeded 1")
	}
	if _, there := w.engine.Find(theirs); !there {
		t.Error("what another space did is forgotten")
	}
	w.field.silent = true
	for range 2 {
		if _, err := start("default"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := start("default"); protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("a third that has not ended: %v", err)
	}
	if _, err := start("theirs"); err != nil {
		t.Errorf("another space: %v", err)
	}
}

// A process that was stopped and goes on when another has taken over asks nobody
// twice: a wave is stored before it is started, and there is one of each id.
func TestTwoOwnersAskNobodyTwice(t *testing.T) {
	w := newWorld(t, 2000)
	w.edit = func(o *Options) { o.Owner = "first" }
	w.boot()
	id := w.start(Plan{Rollout: &Pace{InProgress: 100}})
	eventually.Holds(t, "some were asked", func() bool { n, _ := w.field.total(); return n > 200 })
	other := New(Options{Rollouts: w.rollouts, Parts: w.parts, Skills: w.field, Waves: w.waves, Clock: w.clock, Look: 10 * time.Millisecond, Owner: "second"})
	if err := other.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(id, Complete, "succeeded 2000")
	w.once(2000)
	if r, _ := other.Find(id); r.Owner != "second" {
		t.Errorf("it is %s's", r.Owner)
	}
	if err := other.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestOldRolloutsAreForgotten(t *testing.T) {
	w := newWorld(t, 300).boot()
	id := w.start(Plan{})
	w.expect(id, Complete, "")
	orphan := &Part{Members: []Member{{Skill: "x", State: Queued}}, MadeAt: w.now().UnixMilli()}
	if _, err := w.parts.Create(t.Context(), "gone/0", orphan); err != nil {
		t.Fatal(err)
	}
	w.later(8 * 24 * time.Hour)
	w.engine.forget()
	if w.rollouts.Len() != 0 || w.parts.(*recordstest.Memory[Part]).Len() != 0 {
		t.Errorf("%d rollouts, %d parts", w.rollouts.Len(), w.parts.Len())
	}
}

// unconfirmed is a table whose store makes some changes without confirming them.
type unconfirmed struct {
	*recordstest.Memory[Part]
	mu    sync.Mutex
	every int // of so many updates one is not confirmed
	made  int
}

func (u *unconfirmed) Update(ctx context.Context, key string, p *Part, expect uint64) (uint64, error) {
	revision, err := u.Memory.Update(ctx, key, p, expect)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.made++; err == nil && u.made%u.every == 0 {
		return 0, protocol.Errorf(protocol.StoreUnavailable, "nothing was heard of the write")
	}
	return revision, err
}

// A part that is stored although nobody confirmed it is found: its members are
// counted once, and its waves are gone on with, without a restart.
func TestWhatIsStoredUnconfirmedIsFound(t *testing.T) {
	for _, every := range []int{1, 2, 3} {
		w := newWorld(t, 1000)
		w.parts = &unconfirmed{Memory: w.parts.(*recordstest.Memory[Part]), every: every}
		w.boot()
		w.field.behave = func(agent protocol.AgentID, _ int) ask.Notice {
			if agent == device(1) {
				return broken
			}
			return answered
		}
		id := w.start(Plan{Rollout: &Pace{InProgress: 200}})
		w.expect(id, Partial, "succeeded 999, failed 1")
		w.once(1000)
		w.tidy()
		w.crash()
	}
}
