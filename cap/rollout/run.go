package rollout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// storePatience is the time to wait before a write is tried again.
const storePatience = 500 * time.Millisecond

// A run is a rollout at work. One goroutine decides everything; others wake it.
type run struct {
	e     *Engine
	id    protocol.TaskID
	wake  chan struct{}
	done  chan struct{} // closed when the worker is gone
	turns atomic.Int64  // that were made
	gone  context.Context
	letGo context.CancelFunc

	mu      sync.Mutex
	counts  Counts // changed by the worker alone
	counted bool
	over    []protocol.TaskID // waves that have ended

	// The worker's own.
	seen      []seen                  // parts, as they were read or written last
	doubt     bool                    // a write failed, and may have been made: the parts are looked at anew
	waves     map[protocol.TaskID]int // at work, and the part they are of
	unstarted map[protocol.TaskID]int // waves that are stored and could not be started yet
	cancelled map[protocol.TaskID]bool
	pacer     pacer
	asked     int64 // when members were asked last, Unix milliseconds; 0 for never
	next      int   // part that is looked at first
	round     int   // up to which ended members were queued again
	roster    *roster
	told      Counts
	toldAs    Status
	toldAt    time.Time
	seq       uint64 // of events
}

func newRun(e *Engine, id protocol.TaskID) *run {
	r := &run{
		e: e, id: id, wake: make(chan struct{}, 1), done: make(chan struct{}),
		waves: make(map[protocol.TaskID]int), unstarted: make(map[protocol.TaskID]int), cancelled: make(map[protocol.TaskID]bool),
	}
	r.gone, r.letGo = context.WithCancel(e.ctx)
	return r
}

func (r *run) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// known are the counts, once the worker has them.
func (r *run) known() (Counts, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts, r.counted
}

// A seen is the run's knowledge of a part.
type seen struct {
	revision uint64
	counts   Counts
}

// part reads a part, and takes note of it.
func (r *run) part(n int) (p *Part, revision uint64, ok bool) {
	p, revision, ok = r.e.opts.Parts.Get(partKey(r.id, n))
	if ok {
		r.see(n, p, revision)
	}
	return p, revision, ok
}

// see takes note of a part as it is stored. An unconfirmed write may have been
// made: so the stored part is used, and a wave that is found in it is continued.
func (r *run) see(n int, p *Part, revision uint64) {
	for len(r.seen) <= n {
		r.seen = append(r.seen, seen{})
	}
	known := &r.seen[n]
	if revision <= known.revision {
		return
	}
	r.asked = max(r.asked, p.AskedAt)
	before := known.counts
	*known = seen{revision: revision}
	known.counts.count(p, 1)
	r.mu.Lock()
	r.counts.sum(&before, -1)
	r.counts.sum(&known.counts, 1)
	r.mu.Unlock()
	for i := range p.Waves {
		id := p.Waves[i].Task
		if _, at := r.waves[id]; !at {
			r.unstarted[id] = n
		}
	}
}

// seeAll looks at every part anew.
func (r *run) seeAll(rec *Rollout) {
	for n := range rec.Parts {
		r.part(n)
	}
	r.doubt, r.roster = false, nil
}

// record is the rollout as it is stored, nil if it is not this run's any more.
func (r *run) record() *Rollout {
	rec, _, ok := r.e.opts.Rollouts.Get(string(r.id))
	if !ok || rec.ended() || rec.Owner != r.e.opts.Owner {
		return nil
	}
	return rec
}

// work goes on until the rollout has ended, or has another owner.
func (r *run) work() {
	defer close(r.done)
	rec := r.record()
	if rec == nil {
		return
	}
	begin := r.load
	if why := rec.damage(); why != "" {
		begin = func(*Rollout) error { return r.giveUp(why) }
	}
	defer r.heedGrant(rec)()
	for err := begin(rec); err != nil; err = begin(rec) {
		r.e.opts.Log.Warn("a rollout does not go on yet", "task", r.id, "error", err)
		select {
		case <-time.After(storePatience):
		case <-r.gone.Done():
			return
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for r.gone.Err() == nil {
		select {
		case <-r.gone.Done():
			return
		case <-timer.C:
		case <-r.wake:
		}
		if rec = r.record(); rec == nil {
			return
		}
		wait, err := r.turn(rec)
		r.turns.Add(1)
		if err != nil && r.gone.Err() == nil {
			r.doubt = true
			r.e.opts.Log.Warn("a rollout does not go on yet", "task", r.id, "error", err)
			wait = storePatience
		}
		timer.Reset(min(max(wait, time.Millisecond), r.e.opts.Look))
	}
}

// update replaces a part, unless another owner has claimed it, and takes note of it.
func (r *run) update(n int, p *Part, revision uint64) error {
	if p.Owner != r.e.opts.Owner {
		return protocol.Errorf(protocol.RevisionConflict, "the rollout is carried out by %q", p.Owner)
	}
	revision, err := r.e.opts.Parts.Update(r.gone, partKey(r.id, n), p, revision)
	if err == nil {
		r.see(n, p, revision)
	}
	return err
}

// claim makes a part this process's: from then on an earlier owner that still
// lives can neither begin a wave in it nor end one. It reports whether the part is
// there.
func (r *run) claim(n int) (there bool, err error) {
	p, revision, err := records.Change(r.gone, r.e.opts.Parts, partKey(r.id, n), func(old *Part, _ uint64) (*Part, error) {
		if old == nil {
			return nil, nil
		}
		p := old.clone()
		p.Owner = r.e.opts.Owner
		p.mend(r.e.opts.Clock.Now().UnixMilli())
		return p, nil
	})
	if err == nil && p != nil {
		r.see(n, p, revision)
	}
	return p != nil, err
}

// load claims and counts the members, and goes on with the waves of an earlier
// run.
func (r *run) load(rec *Rollout) error {
	lost := 0
	for n := range rec.Parts {
		there, err := r.claim(n)
		if err != nil {
			return err
		}
		if !there {
			lost++
		}
	}
	if lost > rec.Lost {
		if err := r.missing(lost); err != nil {
			return err
		}
	}
	if r.asked != 0 {
		r.pacer.goOn(r.e.opts.Clock.FromWall(time.UnixMilli(r.asked), 0))
	}
	r.mu.Lock()
	r.counted, r.told = true, r.counts
	r.mu.Unlock()
	r.toldAs = rec.Status
	return nil
}

// turn does the work due now, and returns the time until more is due unless a signal
// comes earlier.
func (r *run) turn(rec *Rollout) (wait time.Duration, err error) {
	if r.doubt {
		r.seeAll(rec)
	}
	for _, step := range []func(*Rollout) error{r.startWaves, r.closeWaves, r.requeue} {
		if err := step(rec); err != nil {
			return 0, err
		}
	}
	if moved, err := r.followGrant(rec); moved || err != nil {
		return 0, err
	}
	defer func() { r.tell(rec) }()
	if rec.Status == Called || r.e.due(rec.Plan.ValidUntil) {
		return r.finish(rec)
	}
	if err := r.admit(rec); err != nil {
		return 0, err
	}
	if moved, err := r.advance(rec); moved || err != nil {
		return 0, err
	}
	if rec.Status != Running {
		return r.e.opts.Look, nil
	}
	if !r.e.mayAsk(&rec.Plan) {
		return r.e.opts.Look, nil
	}
	return r.ask(rec)
}

// heedGrant wakes the run when the caller's credential is no longer valid.
func (r *run) heedGrant(rec *Rollout) (stop func() bool) {
	return r.e.opts.Grants.OnEnd(rec.Caller.Grant, func(error) { r.signal() })
}

// followGrant cancels the rollout of a credential that was revoked. After a mere
// expiry no further member is asked, and members asked before may finish. It
// reports whether that is new. Waves end with the credential too, maybe before the
// run is woken: so the run checks the grant itself before it asks the members of an
// ended wave again.
func (r *run) followGrant(rec *Rollout) (moved bool, err error) {
	_, why := r.e.opts.Grants.Principal(rec.Caller.Grant)
	if why == nil || rec.Status.over() {
		return false, nil
	}
	now, expired := r.e.opts.Clock.Now(), grant.Expired(why)
	if expired && !rec.Plan.ValidUntil.After(now) {
		return false, nil
	}
	_, err = r.e.change(r.gone, r.id, func(rec *Rollout) error {
		switch {
		case rec.Status.over():
		case !expired:
			r.e.become(rec, Called, protocol.AsError(why).Message)
		default:
			rec.Plan.ValidUntil, rec.Reason = now, protocol.AsError(why).Message
		}
		return nil
	})
	return true, err
}

// advance changes the status by the time and the counts. It reports whether it did.
func (r *run) advance(rec *Rollout) (moved bool, err error) {
	counts, _ := r.known()
	switch {
	case rec.Status == Scheduled && r.e.due(rec.Plan.ScheduleAt):
		return true, r.move(rec, Running, "")
	case rec.Status == Waiting:
		return r.awaitApproval(rec)
	case rec.Status != Running:
		return false, nil
	}
	since := counts.without(rec.Forgiven)
	if why := rec.Plan.exceeded(&since); why != "" {
		r.e.metrics.aborted()
		return true, r.move(rec, Aborted, why)
	}
	if moved, err = r.judgeCanary(rec, &counts); moved || err != nil {
		return moved, err
	}
	if counts.Queued == 0 && counts.InProgress == 0 && !rec.Plan.Continuous {
		return true, r.end(rec, counts)
	}
	return false, nil
}

// move changes the status, unless it was changed meanwhile.
func (r *run) move(rec *Rollout, to Status, reason string) error {
	_, err := r.e.change(r.gone, r.id, func(now *Rollout) error {
		if now.Status == rec.Status {
			r.e.become(now, to, reason)
		}
		return nil
	})
	return err
}

// end stores how the rollout ended.
func (r *run) end(rec *Rollout, counts Counts) error {
	ended, err := r.e.change(r.gone, r.id, func(now *Rollout) error {
		if now.Round != rec.Round || now.Status != rec.Status || now.ended() {
			return nil // members were queued again
		}
		now.EndedAt = r.e.opts.Clock.Now().UnixMilli()
		if now.Status != Called {
			r.e.become(now, outcome(&counts), now.Reason)
			now.admitLoss()
		}
		return nil
	})
	if err == nil && ended.ended() {
		r.tell(ended)
		if ended.Approval != "" {
			_ = r.e.opts.Approver.Withdraw(r.gone, ended.Approval, "the rollout has ended")
		}
	}
	return err
}

func outcome(c *Counts) Status {
	switch {
	case c.Succeeded > 0 && c.Succeeded+c.Removed == c.total():
		return Complete
	case c.Succeeded > 0:
		return Partial
	}
	return Fruitless
}

// finish ends a rollout that was cancelled, or whose time is over: no further
// member is asked.
func (r *run) finish(rec *Rollout) (wait time.Duration, err error) {
	if rec.Status == Called {
		for id := range r.waves {
			if !r.cancelled[id] {
				r.cancelled[id] = true
				r.e.wg.Go(func() { _ = r.e.opts.Waves.Cancel(r.gone, id, rec.Reason) })
			}
		}
	}
	if err := r.dropQueued(rec); err != nil {
		return 0, err
	}
	if counts, _ := r.known(); counts.InProgress == 0 && counts.Queued == 0 {
		return 0, r.end(rec, counts)
	}
	return r.e.opts.Look, nil
}

// The data of the events of a rollout.
type progressEvent struct {
	State  Status         `json:"state"`
	Reason string         `json:"reason,omitempty"`
	Counts map[string]int `json:"counts"`
}

// tell publishes changes: of the status at once, of the counts once a second.
func (r *run) tell(rec *Rollout) {
	rec, _, ok := r.e.opts.Rollouts.Get(string(rec.ID))
	if !ok {
		return
	}
	counts, _ := r.known()
	now := time.Now()
	name := "task.progress"
	switch {
	case rec.Status != r.toldAs && (!rec.Status.over() || rec.ended()):
		name = "task." + string(rec.Status)
	case counts == r.told || now.Sub(r.toldAt) < time.Second || rec.Status.over():
		return
	}
	r.told, r.toldAt, r.toldAs = counts, now, rec.Status
	r.seq++
	r.e.event(rec, r.seq, name, progressEvent{rec.Status, rec.Reason, counts.Map()})
}
