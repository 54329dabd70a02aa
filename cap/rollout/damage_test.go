package rollout

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// damage edits a stored part.
func (w *world) damage(id protocol.TaskID, n int, edit func(*Part)) {
	w.t.Helper()
	p, revision, _ := w.parts.Get(partKey(id, n))
	p = p.clone()
	edit(p)
	if _, err := w.parts.Update(context.Background(), partKey(id, n), p, revision); err != nil {
		w.t.Fatal(err)
	}
}

// A record that makes no sense ends its rollout, which says so, and nothing else.
func TestADamagedRecordEndsItsRolloutAlone(t *testing.T) {
	for want, edit := range map[string]func(*Rollout){
		"it cannot have 2000000000 parts":                    func(r *Rollout) { r.Parts = 2_000_000_000 },
		"it cannot have -1 parts":                            func(r *Rollout) { r.Parts = -1 },
		"its plan does not say how fast members are asked":   func(r *Rollout) { r.Plan.Rollout = nil },
		"its rate does not grow":                             func(r *Rollout) { r.Plan.Rollout = &Pace{InProgress: 1, Exponential: &Exponential{Base: 1}} },
		"its plan does not say until when members are asked": func(r *Rollout) { r.Plan.ValidUntil = time.Time{} },
		"its window cannot be read":                          func(r *Rollout) { r.Plan.Window = &Window{Cron: "sometimes"} },
		`it cannot be in state "complete"`:                   func(r *Rollout) { r.Status = Complete },
		`it cannot be in state "?"`:                          func(r *Rollout) { r.Status = "?" },
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t, 20).boot()
			w.field.silent = true
			bad, good := w.start(Plan{Rollout: &Pace{InProgress: 5}}), w.start(Plan{Rollout: &Pace{InProgress: 5}})
			w.expect(bad, Running, "queued 15, in_progress 5")
			w.expect(good, Running, "queued 15, in_progress 5")
			w.crash()
			if _, err := w.engine0().change(t.Context(), bad, func(r *Rollout) error {
				plan := r.Plan
				pace := *plan.Rollout
				plan.Rollout = &pace
				r.Plan = plan
				edit(r)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			w.boot()
			eventually.Holds(t, "the rollout is given up", func() bool {
				v, ok := w.engine.Get(bad)
				return ok && v.ended() && v.Status == Fruitless && v.Reason == "the record of the rollout is damaged: "+want
			})
			w.expect(good, Running, "queued 15, in_progress 5")
			w.field.change(func() { w.field.silent = false })
			w.field.answer(answered)
			w.expect(good, Complete, "succeeded 20")
			if _, err := w.engine.Resume(t.Context(), bad); protocol.CodeOf(err) != protocol.InvalidState {
				t.Errorf("it is resumed: %v", err)
			}
		})
	}
}

// engine0 is an engine that carries nothing out.
func (w *world) engine0() *Engine {
	return New(Options{Rollouts: w.rollouts, Parts: w.parts, Skills: w.field, Waves: w.waves})
}

// A rollout stops when the store has lost some of its members, and says how many. It
// asks no member twice when it goes on without the lost ones.
func TestLostMembersAreToldOf(t *testing.T) {
	w := newWorld(t, 600).boot()
	w.field.silent = true
	id := w.start(Plan{Rollout: &Pace{InProgress: 30}})
	w.expect(id, Running, "queued 570, in_progress 30")
	w.crash()
	if err := w.parts.Delete(t.Context(), partKey(id, 1), 0); err != nil {
		t.Fatal(err)
	}
	w.boot()
	v := w.expect(id, Aborted, "queued 314, in_progress 30")
	if v.Reason != "the records of up to 256 of its members are lost: they are neither counted nor asked" {
		t.Error(v.Reason)
	}
	w.field.change(func() { w.field.silent = false })
	w.field.answer(answered)
	if _, err := w.engine.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	v = w.expect(id, Partial, "succeeded 344")
	if !strings.Contains(v.Reason, "are lost") {
		t.Errorf("the reason is %q", v.Reason)
	}
	w.once(344)
}

// Where a damaged part has lost the outcome of a member that was asked, the outcome is
// unknown: the member may have acted, so it is not asked again.
func TestMembersOfADamagedPartAreNotAskedTwice(t *testing.T) {
	w := newWorld(t, 20).boot()
	w.field.silent = true
	id := w.start(Plan{Rollout: &Pace{InProgress: 6}})
	w.expect(id, Running, "queued 14, in_progress 6")
	eventually.Holds(t, "6 are asked", func() bool { n, _ := w.field.total(); return n == 6 })
	w.crash()
	w.damage(id, 0, func(p *Part) {
		p.Waves = []Wave{{Task: p.Waves[0].Task, Seats: append([]int{1_000_000}, p.Waves[0].Seats...)}}
		p.Members[19].State = "exploded"
	})
	w.field.change(func() { w.field.silent = false; clear(w.field.open) })
	w.boot()
	v := w.expect(id, Partial, "succeeded 13, timed_out 7")
	w.once(19)
	for _, m := range w.engine.Members(v.Rollout, 0) {
		if m.State == TimedOut && (m.Error == nil || m.Error.Code != protocol.OutcomeUnknown) {
			t.Errorf("a member says %+v", m.Error)
		}
	}
}

// A device that was asked and then was away for days, through a restart, answers once
// it is back; one that was away from the beginning is asked then.
func TestDevicesAreAwayForDays(t *testing.T) {
	w := newWorld(t, 3).boot()
	w.field.silent = true
	w.field.devices[device(2)] = false
	p := Plan{ValidUntil: w.now().Add(6 * 24 * time.Hour)}
	id := w.startFor(p, 7*24*time.Hour)
	w.expect(id, Running, "queued 1, in_progress 2")
	eventually.Holds(t, "2 are asked", func() bool { n, _ := w.field.total(); return n == 2 })
	w.field.change(func() { w.field.devices[device(0)], w.field.devices[device(1)] = false, false })
	for range 3 {
		w.later(24 * time.Hour)
		w.crash()
		w.field.change(func() { clear(w.field.open) })
		w.boot()
	}
	w.expect(id, Running, "queued 1, in_progress 2")
	w.field.change(func() {
		w.field.silent = false
		w.field.behave = func(protocol.AgentID, int) ask.Notice { return answered }
		for i := range 3 {
			w.field.devices[device(i)] = true
		}
	})
	w.expect(id, Complete, "succeeded 3")
	w.once(3)
}
