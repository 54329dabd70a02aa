package dispatch

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/aibridge/aibridge/protocol"
)

// A View is a dispatch as it is now.
type View struct {
	*Dispatch
	Outcome Status
	End     *End
	Counts  map[State]int
	Members []MemberView // nil in lists
}

// A MemberView is a member as it is now.
type MemberView struct {
	Skill   protocol.SkillID
	Role    string
	Agent   protocol.AgentID // that was asked
	State   State
	At      int64           // when it became so, Unix milliseconds
	AskedAt int64           // when it was asked first, Unix milliseconds; 0 if it was not
	Tries   int             // how often the request was sent to it; after a restart at least
	Told    json.RawMessage // its last report of its work, while it is running
	Late    bool            // it answered when the dispatch had ended
	Data    json.RawMessage
	Dropped bool // there was more data than is kept
	Error   *Failure
}

// Get shows a dispatch with its members.
func (e *Engine) Get(id protocol.TaskID) (View, bool) {
	if r := e.find(id); r != nil {
		return r.view(true), true
	}
	d, _, ok := e.opts.Dispatches.Get(string(id))
	if !ok {
		return View{}, false
	}
	return e.replay(d).view(true), true
}

// OwnerOf is the process that carries out a dispatch, or does until it ends, as
// its record has it.
func (e *Engine) OwnerOf(id protocol.TaskID) (owner string, ok bool) {
	d, _, ok := e.opts.Dispatches.Get(string(id))
	if !ok {
		return "", false
	}
	return d.Owner, true
}

// Counts are the numbers of members of a dispatch by state.
func (e *Engine) Counts(id protocol.TaskID) (map[State]int, bool) {
	if r := e.find(id); r != nil {
		return r.counts(), true
	}
	d, _, ok := e.opts.Dispatches.Get(string(id))
	if !ok {
		return nil, false
	}
	return e.replay(d).counts(), true
}

// All yields every dispatch, without members and in no order.
func (e *Engine) All() iter.Seq[View] {
	return func(yield func(View) bool) {
		for _, d := range e.opts.Dispatches.All() {
			v := View{Dispatch: d, Outcome: InProgress}
			e.mu.Lock()
			v.End = e.ends[d.ID]
			e.mu.Unlock()
			if v.End != nil {
				v.Outcome = v.End.Outcome
			}
			if !yield(v) {
				return
			}
		}
	}
}

// Cancel ends a dispatch and tells the members without an answer to stop. It
// returns when the end is stored; 3006 if the dispatch has ended before.
func (e *Engine) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	r := e.find(id)
	if r == nil || r.ended() {
		return protocol.Errorf(protocol.InvalidState, "the task has already ended").With("task_id", string(id))
	}
	r.leaveNote(note{cancel: true, because: reason})
	return r.wait(ctx)
}

func (r *run) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end != nil
}

func (r *run) view(withMembers bool) View {
	counts := r.counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := View{Dispatch: r.d, Outcome: InProgress, End: r.end, Counts: counts}
	if r.end != nil {
		v.Outcome = r.end.Outcome
	}
	if !withMembers {
		return v
	}
	v.Members = make([]MemberView, len(r.members))
	for i := range r.members {
		m, s := &r.members[i], &r.d.Seats[i]
		v.Members[i] = MemberView{
			Skill: s.Skill, Role: s.Role, Agent: m.agent, State: m.state, At: m.at, AskedAt: m.askedAt, Tries: m.tries, Told: m.told,
			Late: m.late, Data: m.data, Dropped: m.dropped, Error: m.failure,
		}
	}
	return v
}

// counts is the number of members by state.
func (r *run) counts() map[State]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := make(map[State]int)
	for i := range r.members {
		n[r.members[i].state]++
	}
	return n
}
