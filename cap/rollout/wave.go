package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/protocol"
)

// ask has as many members asked as may be now.
func (r *run) ask(rec *Rollout) (wait time.Duration, err error) {
	counts, _ := r.known()
	began := time.Now()
	rate := rec.Plan.Rollout.rate(counts.Succeeded)
	all := min(r.pacer.allow(rate, r.e.opts.Clock.Steady()), rec.Plan.Rollout.InProgress-counts.InProgress)
	fresh := all
	if c := rec.Plan.Rollout.Canary; c != nil && !rec.Passed {
		fresh = min(all, max(c.Count-counts.begun(), 0))
	}
	for range rec.Parts {
		if all <= 0 || len(r.waves)+len(r.unstarted) >= r.e.opts.MaxWaves || r.gone.Err() != nil {
			break
		}
		r.next %= rec.Parts
		asked, first, err := r.askPart(rec, r.next, all, fresh)
		if err != nil {
			return 0, err
		}
		r.pacer.took(asked)
		all, fresh = all-asked, fresh-first
		r.next++
	}
	return max(r.pacer.wait(rate), 10*time.Since(began)), nil // looking takes a tenth of a processor at most
}

// askPart has members of a part asked, and returns how many, and how many of
// these for the first time.
func (r *run) askPart(rec *Rollout, n, all, fresh int) (asked, first int, err error) {
	old, revision, ok := r.part(n)
	if !ok {
		return 0, 0, nil
	}
	p := old.clone()
	now := r.e.opts.Clock.Now().UnixMilli()
	var seats []int
	changed := false
	for i := range p.Members {
		m := &p.Members[i]
		again := m.Attempts > 0
		if m.State != Queued || m.backsOff(now) || len(seats) >= all || !again && first >= fresh {
			continue
		}
		if m.Agent != "" && !r.e.opts.Skills.Serves(rec.Space, m.Agent, m.Skill) {
			m.State, m.At, changed = Removed, now, true
			continue
		}
		if !r.reachable(rec, m) {
			continue
		}
		m.State, m.At = InProgress, now
		seats = append(seats, i)
		if !again {
			first++
		}
	}
	if len(seats) == 0 && !changed {
		return 0, 0, nil
	}
	if len(seats) > 0 {
		id, err := uuid.NewV7()
		if err != nil {
			return 0, 0, err
		}
		p.Waves, p.AskedAt = append(p.Waves, Wave{protocol.TaskID(id.String()), seats}), now
	}
	if err := r.update(n, p, revision); err != nil {
		return 0, 0, err
	}
	return len(seats), first, r.startWaves(rec)
}

func (r *run) reachable(rec *Rollout, m *Member) bool {
	if m.Agent != "" {
		return r.e.opts.Skills.Reachable(rec.Space, m.Agent)
	}
	_, ok := r.e.opts.Skills.Choose(rec.Space, m.Skill)
	return ok
}

// startWaves starts the waves that are stored. One that an earlier process has
// started is followed.
func (r *run) startWaves(rec *Rollout) error {
	for id, n := range r.unstarted {
		p, _, ok := r.part(n)
		i := -1
		if ok {
			i = slices.IndexFunc(p.Waves, func(w Wave) bool { return w.Task == id })
		}
		if i >= 0 {
			if _, known := r.e.opts.Waves.Get(id); !known {
				if _, err := r.e.opts.Waves.Start(r.gone, order(rec, p, &p.Waves[i])); err != nil && protocol.CodeOf(err) != protocol.AlreadyExists {
					return err
				}
			}
			r.waves[id] = n
			r.follow(id, 0)
		}
		delete(r.unstarted, id)
	}
	return nil
}

// order is the dispatch that a wave is.
func order(rec *Rollout, p *Part, w *Wave) dispatch.Order {
	o := dispatch.Order{
		ID: w.Task, Rollout: rec.ID, Command: rec.Command, Caller: rec.Caller,
		Completion: dispatch.Completion{Policy: dispatch.All}, Patience: time.Duration(rec.Patience) * time.Millisecond,
	}
	for _, seat := range w.Seats {
		o.Members = append(o.Members, dispatch.Candidate{Skill: p.Members[seat].Skill, Agent: p.Members[seat].Agent})
	}
	return o
}

// follow notes when a wave has ended.
func (r *run) follow(id protocol.TaskID, after time.Duration) {
	r.e.wg.Go(func() {
		if after > 0 {
			select {
			case <-time.After(after):
			case <-r.gone.Done():
				return
			}
		}
		if err := r.e.opts.Waves.Wait(r.gone, id); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			return // the bridge stops
		}
		r.mu.Lock()
		r.over = append(r.over, id)
		r.mu.Unlock()
		r.signal()
	})
}

// closeWaves takes the results of the waves that have ended.
func (r *run) closeWaves(rec *Rollout) error {
	r.mu.Lock()
	over := r.over
	r.over = nil
	r.mu.Unlock()
	for i, id := range over {
		if err := r.closeWave(rec, id); err != nil {
			r.mu.Lock()
			r.over = append(r.over, over[i:]...)
			r.mu.Unlock()
			return err
		}
	}
	return nil
}

func (r *run) closeWave(rec *Rollout, id protocol.TaskID) error {
	n := r.waves[id]
	v, known := r.e.opts.Waves.Get(id)
	if known && v.Outcome == dispatch.InProgress { // another bridge's, which is not taken over yet
		r.follow(id, time.Second)
		return nil
	}
	if old, revision, ok := r.part(n); ok {
		if i := slices.IndexFunc(old.Waves, func(w Wave) bool { return w.Task == id }); i >= 0 && known {
			p := old.clone()
			r.take(rec, p, &old.Waves[i], v.Members)
			p.Waves = slices.Delete(p.Waves, i, i+1)
			if err := r.update(n, p, revision); err != nil {
				return err
			}
		}
	}
	delete(r.waves, id)
	delete(r.cancelled, id)
	if err := r.e.opts.Waves.Discard(r.gone, id); err != nil && r.gone.Err() == nil {
		r.e.opts.Log.Warn("a wave is forgotten later", "task", id, "error", err)
	}
	return nil
}

// take takes over how the members of a wave ended.
func (r *run) take(rec *Rollout, p *Part, w *Wave, ends []dispatch.MemberView) {
	kept := 0
	for i := range p.Members {
		kept += len(p.Members[i].Data)
	}
	for k, seat := range w.Seats {
		if k >= len(ends) || seat >= len(p.Members) || p.Members[seat].State != InProgress {
			continue
		}
		m := &p.Members[seat]
		r.takeOne(rec, m, &ends[k])
		if kept += len(m.Data); kept > maxPartData {
			kept -= len(m.Data)
			m.Data, m.Dropped = nil, true
		}
		if m.State != Queued {
			r.e.metrics.ended(m.State)
		}
	}
}

// takeOne takes over how one member of a wave ended.
func (r *run) takeOne(rec *Rollout, m *Member, end *dispatch.MemberView) {
	now := r.e.opts.Clock.Now()
	m.At, m.Asked, m.Data, m.Error, m.NotBefore = now.UnixMilli(), end.Agent, nil, briefly(end.Error), 0
	m.Dropped = end.Dropped
	switch end.State {
	case dispatch.OK:
		m.State, m.Data = Succeeded, end.Data
		if len(m.Data) > maxData {
			m.Data, m.Dropped = nil, true
		}
	case dispatch.Rejected, dispatch.Denied:
		m.State = Rejected
	case dispatch.TimedOut:
		m.State = TimedOut
	case dispatch.Cancelled:
		m.State = Cancelled
	case dispatch.Failed:
		m.State = Failed
	default: // it went before it was asked
		m.State, m.Error = Queued, nil
		return
	}
	m.Attempts++
	if wait, again := rec.Plan.Retry.after(m.State, m.Attempts-m.Spent); again {
		m.State, m.NotBefore = Queued, now.Add(wait).UnixMilli()
	}
}

// briefly is a shortened error, to be kept for one of many members.
func briefly(f *dispatch.Failure) *dispatch.Failure {
	if f == nil {
		return nil
	}
	message := f.Message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return &dispatch.Failure{Code: f.Code, Message: message}
}
