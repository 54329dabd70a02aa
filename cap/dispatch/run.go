package dispatch

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// Bounds of the results that are kept, so that a task can be shown in one
// message and a batch be stored in one record.
const (
	maxData      = 64 << 10  // of one member, in bytes
	maxTotal     = 512 << 10 // of all members together
	maxTold      = 4 << 10   // of a member's progress, in bytes
	maxBatchData = 256 << 10
	maxBatch     = 500 // updates
)

// storePatience is the time to wait between attempts to store a batch.
const storePatience = 500 * time.Millisecond

// A run is a dispatch that is at work, or waits for late answers. One
// goroutine decides everything; others leave notes.
type run struct {
	e    *Engine
	d    *Dispatch
	next int // the number of the next batch

	// Times of the steady clock, so that setting the wall clock ends nothing too
	// early and has no member asked twice.
	began   int64 // when this process took the dispatch up
	ends    int64 // the deadline
	endedAt int64 // when it ended, if it has

	mu      sync.Mutex // for members, end and kept, which the worker alone changes
	members []member
	end     *End
	kept    int           // bytes of data
	done    chan struct{} // closed when there is an end

	noteMu  sync.Mutex
	notes   []note                  // heard and not decided yet
	news    map[int]json.RawMessage // of members at work: nil when they accepted, else their progress
	waiting map[int]bool            // seats to be asked, or asked again, when they can be reached
	wake    chan struct{}
	gone    context.Context // ends when the run is to be let go of
	letGo   context.CancelFunc
	left    chan struct{} // closed when the worker is gone

	// The worker's own.
	listening map[int]bool // seats with an invocation that may still be answered
	seq       uint64       // of events
	lastBatch time.Time
}

// A note is something that happened to a seat, or to the whole.
type note struct {
	seat    int
	heard   ask.Notice
	back    bool   // the seat can be reached
	cancel  bool   // the dispatch is cancelled
	because string // why
}

func newRun(e *Engine, d *Dispatch, members []member) *run {
	r := &run{
		e: e, d: d, members: members, done: make(chan struct{}), left: make(chan struct{}),
		news: make(map[int]json.RawMessage), waiting: make(map[int]bool), wake: make(chan struct{}, 1),
		listening: make(map[int]bool),
	}
	r.gone, r.letGo = context.WithCancel(e.ctx)
	patience := time.Duration(d.Deadline-d.StartedAt) * time.Millisecond
	r.began, r.ends = e.opts.Clock.Steady(), e.opts.Clock.FromWall(time.UnixMilli(d.Deadline), patience)
	return r
}

// until is the time until one of the steady clock.
func (r *run) until(at int64) time.Duration {
	return time.Duration(at - r.e.opts.Clock.Steady())
}

// past reports whether the deadline is.
func (r *run) past() bool { return r.until(r.ends) <= 0 }

// youngerThan reports whether the dispatch began less than so long ago, for certain.
// The time before this process took it up is known from the calendar alone.
func (r *run) youngerThan(d time.Duration) bool {
	clock := r.e.opts.Clock
	by := clock.Now().Sub(time.UnixMilli(r.d.StartedAt))
	return by >= 0 && max(by, time.Duration(clock.Steady()-r.began)) < d
}

// work goes on until nothing more is to come.
func (r *run) work() {
	defer r.leave()
	defer r.callOffWithGrant()()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.gone.Done():
			return
		case <-timer.C:
		case <-r.wake:
		}
		if !r.rest() {
			return
		}
		if !r.turn() {
			return
		}
		if r.over() {
			return
		}
		timer.Reset(r.untilNext())
	}
}

// begin asks the members that are online and watches for the others.
func (r *run) begin() {
	for i := range r.members {
		switch m := &r.members[i]; {
		case m.decided():
		case m.asked:
			r.send(i)
		default:
			r.await(i)
		}
	}
}

// resume takes up a run of an earlier process: it listens to the members that
// were asked, and asks for their results once they are online.
func (r *run) resume() {
	for i := range r.members {
		switch m := &r.members[i]; {
		case m.state == TimedOut && m.asked:
			r.expect(i)
		case m.decided() || r.end != nil && m.state == Offline:
		case !m.asked:
			r.await(i)
		case m.agent == "" && m.again && r.denied(i) == nil:
			r.send(i)
		case m.agent == "": // there is no agent to ask
			r.hear(i, ask.Notice{Kind: ask.Failed, Err: unknown("the bridge stopped before the answer came")})
		default:
			r.expect(i)
			r.await(i)
		}
	}
}

// leave stops listening and is forgotten.
func (r *run) leave() {
	for i := range r.listening {
		r.e.opts.Invoker.Drop(r.d.invocationID(i))
	}
	r.letGo()
	r.e.leave(r)
	close(r.left)
}

// over reports whether nothing more can come of the run.
func (r *run) over() bool {
	if r.end == nil {
		return false
	}
	if r.until(max(r.endedAt, r.ends))+r.e.opts.LateFor < 0 || r.end.Outcome == Called {
		return true
	}
	for i := range r.members {
		m := &r.members[i]
		if !m.decided() && m.state != Offline || m.state == TimedOut && m.asked || m.state == Offline && !r.past() {
			return false
		}
	}
	return true
}

// untilNext is the time until the next event of the clock: the deadline, and then
// the end of late answers.
func (r *run) untilNext() time.Duration {
	left := r.until(r.ends)
	if left <= 0 {
		left = max(left, 0) + r.e.opts.LateFor
	}
	return max(left, time.Millisecond)
}

// rest keeps batches apart, so that many answers become one.
func (r *run) rest() bool {
	left := r.e.opts.Pace - time.Since(r.lastBatch)
	if left <= 0 {
		return true
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.gone.Done():
		return false
	}
}

// turn makes decisions of the notes, stores them, and then shows and carries
// them out. It reports whether the run goes on.
func (r *run) turn() bool {
	p := r.plan()
	if len(p.batch.Updates) > 0 || p.batch.End != nil {
		if !r.store(&p.batch) {
			return false
		}
		r.commit(&p.batch)
	}
	r.tell(p)
	r.act(p)
	return true
}

// store writes a batch, however long that takes.
func (r *run) store(b *Batch) bool {
	for {
		_, err := r.e.opts.Batches.Create(r.gone, batchKey(r.d.ID, r.next), b)
		if err == nil || protocol.CodeOf(err) == protocol.AlreadyExists { // an attempt that seemed to fail did not
			r.next++
			r.lastBatch = time.Now()
			return true
		}
		if r.gone.Err() != nil {
			return false
		}
		r.e.opts.Log.Warn("results of a dispatch are not stored yet", "task", r.d.ID, "error", err)
		select {
		case <-time.After(storePatience):
		case <-r.gone.Done():
			return false
		}
	}
}

// commit shows the decisions of a stored batch.
func (r *run) commit(b *Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.Updates {
		u := &b.Updates[i]
		if u.Seat < 0 || u.Seat >= len(r.members) {
			continue
		}
		r.kept += len(u.Data)
		r.members[u.Seat].apply(u)
	}
	if b.End != nil && r.end == nil {
		r.end, r.endedAt = b.End, r.e.opts.Clock.FromWall(time.UnixMilli(b.End.At), 0)
		close(r.done)
	}
}

// hear leaves a note of the news of a member's invocation.
func (r *run) hear(seat int, n ask.Notice) {
	r.noteMu.Lock()
	switch n.Kind {
	case ask.Accepted:
		if _, known := r.news[seat]; !known {
			r.news[seat] = nil
		}
	case ask.Progressed:
		r.news[seat] = n.Data
	default:
		r.notes = append(r.notes, note{seat: seat, heard: n})
	}
	r.noteMu.Unlock()
	r.signal()
}

func (r *run) leaveNote(n note) {
	r.noteMu.Lock()
	r.notes = append(r.notes, n)
	r.noteMu.Unlock()
	r.signal()
}

func (r *run) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// await has a seat asked when it can be reached.
func (r *run) await(seat int) {
	r.noteMu.Lock()
	defer r.noteMu.Unlock()
	r.waiting[seat] = true
}

func (r *run) isAwaited(seat int) bool {
	r.noteMu.Lock()
	defer r.noteMu.Unlock()
	return r.waiting[seat]
}

// lookAround leaves notes of seats that can be reached by now.
func (r *run) lookAround() {
	r.noteMu.Lock()
	seats := make([]int, 0, len(r.waiting))
	for i := range r.waiting {
		seats = append(seats, i)
	}
	r.noteMu.Unlock()
	for _, i := range seats {
		r.mu.Lock()
		asked, agent := r.members[i].asked, r.members[i].agent
		r.mu.Unlock()
		var back bool
		if asked {
			back = r.e.opts.Skills.Reachable(r.d.Space, agent)
		} else {
			_, back = r.e.choose(r.d, &r.d.Seats[i])
		}
		if !back {
			continue
		}
		r.noteMu.Lock()
		if r.waiting[i] {
			delete(r.waiting, i)
			r.notes = append(r.notes, note{seat: i, back: true})
		}
		r.noteMu.Unlock()
		r.signal()
	}
}

// unknown is the error for a member whose outcome is unknown.
func unknown(why string) *protocol.Error {
	return protocol.Errorf(protocol.OutcomeUnknown, "%s", why)
}
