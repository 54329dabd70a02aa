package dispatch

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A plan is the decision of one turn: the batch to store, and the actions after
// it.
type plan struct {
	batch  Batch
	staged map[int]State // the states that the batch gives to seats

	send   []int // to be asked, once the intent is stored
	recall []int // to be asked for their result
	cancel []int // to be told to stop
	await  []int // to be looked out for
	closed []int // whose invocation is answered
	drop   []int // whose invocation is not to be answered any more
	news   map[int]json.RawMessage
	reason string // of cancellations

	bytes int // of data in the batch
	now   time.Time
	past  bool // the deadline is
}

// plan makes decisions of the notes and the time.
func (r *run) plan() *plan {
	p := &plan{staged: make(map[int]State), now: r.e.opts.Clock.Now(), past: r.past()}
	r.noteMu.Lock()
	notes := r.notes
	r.notes = nil
	p.news, r.news = r.news, make(map[int]json.RawMessage)
	r.noteMu.Unlock()
	for n, what := range notes {
		if len(p.batch.Updates) >= maxBatch || p.bytes >= maxBatchData {
			r.putBack(notes[n:])
			break
		}
		r.decide(p, what)
	}
	if p.past {
		r.timeOut(p)
	}
	if r.end == nil && p.batch.End == nil {
		r.conclude(p)
	}
	return p
}

// putBack leaves notes for the next turn, before newer ones.
func (r *run) putBack(notes []note) {
	r.noteMu.Lock()
	r.notes = append(slices.Clone(notes), r.notes...)
	r.noteMu.Unlock()
	r.signal()
}

// state returns the state of a seat under the plan.
func (p *plan) state(r *run, seat int) (s State, decided bool) {
	s, ok := p.staged[seat]
	if !ok {
		s = r.members[seat].state
	}
	return s, (&member{state: s}).decided()
}

// update stages the decision about a seat.
func (p *plan) update(u Update) {
	u.At = p.now.UnixMilli()
	p.batch.Updates = append(p.batch.Updates, u)
	p.staged[u.Seat] = u.State
	p.bytes += len(u.Data)
}

// decide makes something of one note.
func (r *run) decide(p *plan, n note) {
	if n.cancel {
		r.cancelAll(p, n.because)
		return
	}
	state, decided := p.state(r, n.seat)
	over := r.end != nil || p.batch.End != nil
	switch {
	case n.back:
		if !decided && !p.past {
			r.askNow(p, n.seat)
		}
	case n.heard.Kind.Ends():
		p.closed = append(p.closed, n.seat)
		if !decided || state == TimedOut {
			r.answer(p, n.seat, n.heard, over || decided)
		}
	case decided:
	case n.heard.Kind == ask.Left:
		p.await = append(p.await, n.seat)
	case n.heard.Kind == ask.Forgotten:
		r.forgotten(p, n.seat, n.heard.Since)
	case n.heard.Kind == ask.Mute && r.members[n.seat].again && r.denied(n.seat) == nil:
		p.send = append(p.send, n.seat)
	}
}

// answer makes decisions of a member's answer.
func (r *run) answer(p *plan, seat int, n ask.Notice, late bool) {
	u := Update{Seat: seat, Late: late, Agent: r.members[seat].agent}
	switch n.Kind {
	case ask.Answered:
		u.State, u.Data = OK, n.Data
		if len(u.Data) > maxData || r.kept+p.bytes+len(u.Data) > maxTotal {
			u.Data, u.Dropped = nil, true
		}
	case ask.Rejected:
		u.State, u.Error = Rejected, failureOf(n.Err)
	default:
		if late && (n.Err.Code == protocol.TimedOut || n.Err.Code == protocol.Cancelled) {
			return // nothing new
		}
		u.State, u.Error = Failed, failureOf(n.Err)
	}
	p.update(u)
}

// askNow asks a member that can be reached: for the first time once that is
// stored, else for its result.
func (r *run) askNow(p *plan, seat int) {
	m := &r.members[seat]
	if m.asked {
		p.recall = append(p.recall, seat)
		return
	}
	agent, ok := r.e.choose(r.d, &r.d.Seats[seat])
	if !ok {
		p.await = append(p.await, seat)
		return
	}
	if err := r.denied(seat); err != nil {
		p.update(Update{Seat: seat, State: Denied, Error: failureOf(err)})
		return
	}
	again, err := r.e.opts.Skills.Prepare(r.d.Space, r.d.Seats[seat].Skill, r.d.Capability, r.d.Params)
	if err != nil {
		p.update(Update{Seat: seat, State: Failed, Error: failureOf(err)})
		return
	}
	p.update(Update{Seat: seat, State: Pending, Asked: true, Again: again, Agent: agent})
	p.send = append(p.send, seat)
}

// forgotten decides about a member whose agent knows nothing of the invocation.
// If it has listened since before the dispatch began it never got it.
func (r *run) forgotten(p *plan, seat int, since time.Time) {
	neverGot := !since.IsZero() && r.youngerThan(time.Since(since))
	var denied error
	if neverGot || r.members[seat].again {
		if denied = r.denied(seat); denied == nil {
			p.send = append(p.send, seat)
			return
		}
	}
	p.drop = append(p.drop, seat)
	if neverGot {
		p.update(Update{Seat: seat, State: Denied, Agent: r.members[seat].agent, Error: failureOf(denied)})
		return
	}
	p.update(Update{Seat: seat, State: Failed, Agent: r.members[seat].agent,
		Error: failureOf(unknown("the agent was started anew and does not know what became of it"))})
}

// timeOut decides about the members without an answer at the deadline.
func (r *run) timeOut(p *plan) {
	if r.end != nil && r.e.opts.Clock.Steady() > r.ends+int64(r.e.opts.LateFor) {
		return
	}
	for i := range r.members {
		if len(p.batch.Updates) >= maxBatch {
			r.signal()
			return
		}
		state, decided := p.state(r, i)
		m := &r.members[i]
		switch {
		case decided || state == Offline && m.failure != nil:
		case m.asked || state == Pending:
			err := protocol.Errorf(protocol.TimedOut, "no answer before the deadline")
			if r.isAwaited(i) {
				err = unknown("the agent went away before it answered")
			}
			p.update(Update{Seat: i, State: TimedOut, Error: failureOf(err)})
		default:
			p.update(Update{Seat: i, State: Offline, Error: failureOf(protocol.Errorf(protocol.AgentOffline, "was not there before the deadline"))})
		}
	}
}

// cancelAll ends the dispatch, and cancels all members that are not decided.
func (r *run) cancelAll(p *plan, reason string) {
	if r.end != nil || p.batch.End != nil {
		return
	}
	r.callOff(p, reason)
	p.batch.End = &End{Outcome: Called, At: p.now.UnixMilli(), Reason: reason}
}

// callOff cancels the undecided members.
func (r *run) callOff(p *plan, reason string) {
	p.reason = reason
	for i := range r.members {
		if _, decided := p.state(r, i); decided {
			continue
		}
		if r.members[i].asked {
			p.cancel = append(p.cancel, i)
		}
		p.update(Update{Seat: i, State: Cancelled, Error: failureOf(protocol.Errorf(protocol.Cancelled, "%s", reason))})
	}
}

// conclude ends the dispatch if its completion is reached or out of reach.
func (r *run) conclude(p *plan) {
	done, open := 0, 0
	for i := range r.members {
		switch s, decided := p.state(r, i); {
		case s == OK:
			done++
		case !decided:
			open++
		}
	}
	if p.past {
		open = r.undecidedPast(p)
	}
	outcome := r.d.Completion.judge(len(r.members), done, open, p.past && open == 0)
	if outcome == InProgress {
		return
	}
	if r.d.Completion.Policy == First && outcome == Complete {
		r.callOff(p, "enough others have done it")
	}
	p.batch.End = &End{Outcome: outcome, At: p.now.UnixMilli()}
}

// undecidedPast counts the members left to be timed out by a later turn.
func (r *run) undecidedPast(p *plan) int {
	n := 0
	for i := range r.members {
		s, decided := p.state(r, i)
		if _, staged := p.staged[i]; !decided && !(s == Offline && (staged || r.members[i].failure != nil)) {
			n++
		}
	}
	return n
}
