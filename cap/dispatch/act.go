package dispatch

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// act carries out a plan after its batch is stored.
func (r *run) act(p *plan) {
	for _, i := range p.closed {
		delete(r.listening, i)
	}
	for _, i := range p.drop {
		delete(r.listening, i)
		r.e.opts.Invoker.Drop(r.d.invocationID(i))
	}
	for _, i := range p.cancel {
		if r.listening[i] {
			delete(r.listening, i)
			r.e.opts.Invoker.CancelDurable(r.invocation(i), p.reason)
		}
	}
	for _, i := range p.send {
		if !r.members[i].decided() {
			r.send(i)
		}
	}
	for _, i := range p.recall {
		if r.members[i].decided() {
			continue
		}
		r.listening[i] = true
		r.e.opts.Invoker.Recall(r.invocation(i))
	}
	for _, i := range p.await {
		if !r.members[i].decided() {
			r.await(i)
		}
	}
}

// send asks a member. That it is asked is stored.
func (r *run) send(i int) {
	r.mu.Lock()
	r.members[i].tries++
	r.mu.Unlock()
	r.listening[i] = true
	r.e.opts.Invoker.AskDurably(r.invocation(i))
}

// expect listens for the answer to an earlier request.
func (r *run) expect(i int) {
	r.listening[i] = true
	r.e.opts.Invoker.Expect(r.invocation(i))
}

// invocation is the request to a member. Its id stays the same however often it
// is sent.
func (r *run) invocation(i int) *ask.Durable {
	d := r.d
	return &ask.Durable{
		ID: d.invocationID(i), Space: d.Space, Skill: d.Seats[i].Skill, Agent: r.members[i].agent,
		Capability: d.Capability, Params: d.Params, Extension: d.Extension, Caller: d.callerName(), TraceID: d.TraceID, Priority: d.Priority, Deadline: time.Now().Add(r.until(r.ends)),
		Listener: ask.ListenerFunc(func(n ask.Notice) { r.hear(i, n) }),
	}
}

// The data of the events of a dispatch.
type (
	membersEvent struct {
		Members []memberEvent `json:"members"`
		Counts  map[State]int `json:"counts"`
	}
	memberEvent struct {
		Skill protocol.SkillID `json:"skill_id"`
		State State            `json:"state"`
		Agent protocol.AgentID `json:"agent_id,omitempty"`
		Late  bool             `json:"late,omitempty"`
	}
	progressEvent struct {
		Skill protocol.SkillID `json:"skill_id"`
		Data  json.RawMessage  `json:"data"`
	}
	endEvent struct {
		Outcome Status        `json:"state"`
		Reason  string        `json:"reason,omitempty"`
		Counts  map[State]int `json:"counts"`
	}
)

// tell publishes the states of members and the events of a turn.
func (r *run) tell(p *plan) {
	var changed []memberEvent
	for i := range p.batch.Updates {
		u := &p.batch.Updates[i]
		changed = append(changed, memberEvent{r.d.Seats[u.Seat].Skill, u.State, r.members[u.Seat].agent, u.Late})
	}
	for i, data := range p.news {
		state := Accepted
		if data != nil {
			state = Running
		}
		if r.atWork(i, state) {
			changed = append(changed, memberEvent{r.d.Seats[i].Skill, state, r.members[i].agent, false})
		}
		if data != nil && !r.members[i].decided() {
			r.keepTold(i, data)
			r.publish("task.progress", progressEvent{r.d.Seats[i].Skill, data})
		}
	}
	if len(changed) > 0 {
		r.publish("task.members", membersEvent{changed, r.counts()})
	}
	if end := p.batch.End; end != nil {
		r.e.ended(r.d.ID, end)
		r.publish("task."+string(end.Outcome), endEvent{end.Outcome, end.Reason, r.counts()})
	}
}

// atWork notes that a member is at work. It reports whether that is news.
func (r *run) atWork(i int, s State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.members[i]
	if m.decided() || m.state == s || m.state == Running && s == Accepted {
		return false
	}
	m.state = s
	return true
}

// keepTold keeps a member's report of its work, unless it is too long.
func (r *run) keepTold(i int, data json.RawMessage) {
	if len(data) > maxTold {
		data = nil
	}
	r.mu.Lock()
	r.members[i].told = data
	r.mu.Unlock()
}

func (r *run) publish(name string, data any) {
	if r.d.Rollout != "" { // a rollout reports its own progress
		return
	}
	raw, err := json.Marshal(data)
	if err != nil {
		r.e.opts.Log.Error("an event of a dispatch cannot be told", "task", r.d.ID, "event", name, "error", err)
		return
	}
	r.seq++
	r.e.opts.Publish(protocol.Everybody(cmp.Or(r.d.Home, protocol.DefaultSpace)), r.d.ID, &protocol.Event{
		Version: protocol.Version, ID: string(r.d.ID), Timestamp: r.e.opts.Clock.Now().UnixMilli(), Name: name, Seq: r.seq, Data: raw,
		Metadata: protocol.Metadata{SenderID: r.e.opts.BridgeID, TraceID: r.d.TraceID},
	})
}
