package rollout

import (
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/protocol"
)

// mostParts bounds the parts of a rollout. The last one is filled before another is
// begun.
const mostParts = maxMembers/partSize + 1

// damage is the reason why a record cannot be worked with, "" for a sound one. A
// store that lost something or was edited by hand may hold one that no command
// makes.
func (r *Rollout) damage() string {
	pace := r.Plan.Rollout
	switch {
	case r.Parts < 0 || r.Parts > mostParts:
		return fmt.Sprintf("it cannot have %d parts", r.Parts)
	case pace == nil || pace.InProgress < 1:
		return "its plan does not say how fast members are asked"
	case pace.Exponential != nil && (pace.Exponential.OnSuccess < 1 || pace.Exponential.Base < 1):
		return "its rate does not grow"
	case r.Plan.ValidUntil.IsZero():
		return "its plan does not say until when members are asked"
	}
	if w := r.Plan.Window; w != nil {
		if _, _, err := w.schedule(); err != nil {
			return "its window cannot be read"
		}
	}
	switch r.Status {
	case Scheduled, Running, Waiting, Paused, Aborted, Called:
		return ""
	case Complete, Partial, Fruitless:
		if r.ended() {
			return ""
		}
	}
	return fmt.Sprintf("it cannot be in state %q", r.Status)
}

// giveUp ends a rollout whose record is damaged.
func (r *run) giveUp(why string) error {
	why = "the record of the rollout is damaged: " + why
	r.e.opts.Log.Error("a rollout is given up", "task", r.id, "error", why)
	_, err := r.e.change(r.gone, r.id, func(now *Rollout) error {
		if now.ended() || now.damage() == "" {
			return nil
		}
		r.e.become(now, Fruitless, why)
		now.EndedAt, now.Parts = now.Since, min(max(now.Parts, 0), mostParts)
		return nil
	})
	return err
}

// mend counts the outcomes of members as unknown where a damaged part does not have
// them. It reports whether there were any.
func (p *Part) mend(now int64) (changed bool) {
	held, waves := make(map[int]bool), p.Waves[:0:0]
	for _, w := range p.Waves {
		if p.holds(&w, held) {
			waves = append(waves, w)
		}
	}
	if changed = len(waves) != len(p.Waves); changed {
		p.Waves = waves
	}
	for i := range p.Members {
		m := &p.Members[i]
		if m.known() && (m.State != InProgress || held[i]) {
			continue
		}
		m.State, m.At, changed = TimedOut, now, true
		m.Error = &dispatch.Failure{Code: protocol.OutcomeUnknown, Message: "what became of it is lost: the record of the rollout was damaged"}
	}
	return changed
}

// holds reports whether the members of a wave are of the part, and in progress in no
// other wave. It notes them.
func (p *Part) holds(w *Wave, held map[int]bool) bool {
	own := make(map[int]bool, len(w.Seats))
	for _, seat := range w.Seats {
		if seat < 0 || seat >= len(p.Members) || held[seat] || own[seat] {
			return false
		}
		own[seat] = true
	}
	for seat := range own {
		held[seat] = true
	}
	return true
}

// known reports whether a member is in a state that there is.
func (m *Member) known() bool { return slices.Contains(states, m.State) }

// missing notes parts that the store has lost: the rollout stops until an operator
// resumes it without them.
func (r *run) missing(lost int) error {
	_, err := r.e.change(r.gone, r.id, func(now *Rollout) error {
		if lost <= now.Lost {
			return nil
		}
		now.Lost = lost
		if !now.Status.over() {
			r.e.become(now, Aborted, now.lostInWords())
		}
		return nil
	})
	return err
}

// admitLoss has a rollout that lost members not end as if all had done it.
func (r *Rollout) admitLoss() {
	if r.Lost == 0 {
		return
	}
	if r.Reason = r.lostInWords(); r.Status == Complete {
		r.Status = Partial
	}
}

// lostInWords describes the loss in the store.
func (r *Rollout) lostInWords() string {
	return fmt.Sprintf("the records of up to %d of its members are lost: they are neither counted nor asked", r.Lost*partSize)
}
