package rollout

import (
	"slices"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// changeParts replaces the parts that edit changes.
func (r *run) changeParts(rec *Rollout, edit func(p *Part) bool) error {
	for n := range rec.Parts {
		if err := r.gone.Err(); err != nil {
			return err
		}
		old, revision, ok := r.part(n)
		if !ok {
			continue
		}
		p := old.clone()
		if !edit(p) {
			continue
		}
		if err := r.update(n, p, revision); err != nil {
			return err
		}
	}
	return nil
}

// dropQueued ends the members that are not asked any more.
func (r *run) dropQueued(rec *Rollout) error {
	if counts, _ := r.known(); counts.Queued == 0 {
		return nil
	}
	state, why := TimedOut, protocol.Errorf(protocol.TimedOut, "was not asked before valid_until")
	if rec.Status == Called {
		state, why = Cancelled, protocol.Errorf(protocol.Cancelled, "%s", rec.Reason)
	}
	now := r.e.opts.Clock.Now().UnixMilli()
	return r.changeParts(rec, func(p *Part) (changed bool) {
		for i := range p.Members {
			if m := &p.Members[i]; m.State == Queued {
				if m.Error == nil {
					m.Error = briefly(&dispatch.Failure{Code: why.Code, Message: why.Message})
				}
				m.State, m.At, changed = state, now, true
			}
		}
		return changed
	})
}

// requeue queues ended members again, on request.
func (r *run) requeue(rec *Rollout) error {
	if rec.Round <= r.round {
		return nil
	}
	now := r.e.opts.Clock.Now().UnixMilli()
	err := r.changeParts(rec, func(p *Part) bool {
		if p.Round >= rec.Round {
			return false
		}
		p.Round = rec.Round
		for i := range p.Members {
			if m := &p.Members[i]; slices.Contains(rec.Again, m.State) {
				m.State, m.At, m.Spent, m.NotBefore = Queued, now, m.Attempts, 0
			}
		}
		return true
	})
	if err == nil {
		r.round = rec.Round
	}
	return err
}

// A roster holds the members so far, for rollouts that others may join.
type roster struct {
	members map[seat]bool
	chosen  *selector.Selector
	looked  time.Time
}

type seat struct {
	agent protocol.AgentID
	skill protocol.SkillID
}

// joinEvery is the interval at which new members that the selector chooses are
// looked for.
const joinEvery = 2 * time.Second

// admit adds the members that the selector has chosen since.
func (r *run) admit(rec *Rollout) error {
	if !rec.Plan.Continuous || rec.Status == Scheduled {
		return nil
	}
	if r.roster == nil {
		chosen, err := selector.Parse(rec.Selector)
		if err != nil {
			return protocol.Wrap(protocol.Internal, err, "the selector of the rollout cannot be read")
		}
		r.roster = &roster{members: make(map[seat]bool), chosen: chosen}
		for _, p := range r.e.parts(rec) {
			for i := range p.Members {
				r.roster.members[seat{p.Members[i].Agent, p.Members[i].Skill}] = true
			}
		}
	}
	if time.Since(r.roster.looked) < joinEvery {
		return nil
	}
	r.roster.looked = time.Now()
	var joined []Member
	for agent, skill := range r.e.opts.Skills.Select(rec.Space, r.roster.chosen, rec.Capability) {
		if s := (seat{agent, skill}); !r.roster.members[s] && len(r.roster.members)+len(joined) < maxMembers {
			joined = append(joined, Member{Skill: skill, Agent: agent, State: Queued})
		}
	}
	if len(joined) == 0 {
		return nil
	}
	return r.join(rec, joined)
}

// join stores new members: in the last part while it has room, then in others.
func (r *run) join(rec *Rollout, joined []Member) error {
	note := func(members []Member) {
		for i := range members {
			r.roster.members[seat{members[i].Agent, members[i].Skill}] = true
		}
	}
	if old, revision, ok := r.part(rec.Parts - 1); ok && len(old.Members) < partSize {
		p, n := old.clone(), min(len(joined), partSize-len(old.Members))
		p.Members = append(p.Members, joined[:n]...)
		if err := r.update(rec.Parts-1, p, revision); err != nil {
			return err
		}
		note(joined[:n])
		joined = joined[n:]
	}
	if len(joined) == 0 {
		return nil
	}
	parts, err := r.e.storeMembers(r.gone, rec, rec.Parts, joined)
	if err != nil {
		return err
	}
	if _, err := r.e.change(r.gone, r.id, func(now *Rollout) error { now.Parts = parts; return nil }); err != nil {
		return err
	}
	for n := rec.Parts; n < parts; n++ {
		r.part(n)
	}
	note(joined)
	return nil
}
