package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A DurableCall is an invocation whose caller does not hang on the line: it
// may be sent again, asked about and answered under the same id whatever
// happens to connections, to the agent and to the bridge.
type DurableCall struct {
	ID         string // of the envelope, the caller's choice
	Space      protocol.SpaceID
	Skill      protocol.SkillID
	Agent      protocol.AgentID // that is asked, "" for an HTTP endpoint
	Capability protocol.CapabilityID
	Params     json.RawMessage // an object
	Extension  json.RawMessage // vendor data of the request, nil without any
	Caller     string          // tells on whose behalf the call is made, "" for the bridge's own
	TraceID    string
	Priority   protocol.Priority
	Deadline   time.Time
	Listener   Listener

	again bool // running it twice is as good as once
}

// A Listener hears about a [DurableCall]. Its methods may be called with locks
// held: they must neither block nor call the service.
type Listener interface {
	// The first three end the call: nothing is heard of it later.
	Answered(data json.RawMessage)
	Refused(err *protocol.Error)
	Declined(err *protocol.Error) // the agent rejected the task

	Took()                         // the agent has accepted the task
	Progressed(data []byte)        // the agent tells how it is getting on
	Left()                         // the agent went offline
	Forgotten(listening time.Time) // the agent knows nothing of it and has listened since then, zero if it does not say
	Mute()                         // the agent cannot be asked for results
}

// CheckInvocation says why a skill would not take an invocation, and whether
// running it twice is as good as once.
func (s *Service) CheckInvocation(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) (idempotent bool, err error) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return false, notFound("skill", skill)
	}
	c, ok := r.capability(capability)
	if !ok {
		return false, r.noCapability(capability)
	}
	return c.repeatable(), s.checkParams(c, params)
}

// ChooseAgent picks the least busy agent of a skill that can be asked now, "" for
// a skill that is called at an endpoint of its own. ok is whether there is one.
func (s *Service) ChooseAgent(space protocol.SpaceID, skill protocol.SkillID) (agent protocol.AgentID, ok bool) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return "", false
	}
	peers := s.peers(nil, r, nil)
	if len(peers) == 0 {
		return "", false
	}
	s.exchanges.mu.Lock()
	defer s.exchanges.mu.Unlock()
	if best := s.exchanges.leastBusy(peers); best.agent != nil {
		agent = best.agent.ID
	}
	return agent, true
}

// AgentReachable reports whether an agent can be asked now.
func (s *Service) AgentReachable(space protocol.SpaceID, agent protocol.AgentID) bool {
	a, _ := s.board.reachable(agentKey{space, agent})
	return a != nil
}

// Send invokes the skill and listens for what comes. An error means that
// nobody who is there got it; it may lie in the session of an agent that just
// went.
func (s *Service) Send(c *DurableCall) error {
	e, err := s.stand(c)
	if err != nil {
		return err
	}
	left := time.Until(c.Deadline)
	if left <= 0 {
		return protocol.Errorf(protocol.TimedOut, "no time is left")
	}
	params := InvokeSkillParams{SkillID: c.Skill, CapabilityID: c.Capability, Params: c.Params}
	envelope := s.envelope(c.ID, skillInvoke.Name, params.forwarded(), c.call(), time.Now())
	envelope.Extension = c.Extension
	// A dispatch may last longer than a request; what it may not is to be
	// told a time that no request has.
	envelope.Metadata.Timeout = min(max(left.Truncate(time.Millisecond), time.Millisecond), protocol.MaxTimeout)
	envelope.Metadata.Events = true
	return s.dispatch(e, &delivery{&envelope, left, s.marks.ofNamed(c.Caller), c.again})
}

// dispatch delivers a request of a standing call. Without a way to the agent it
// is left where its session finds it when it comes back.
func (s *Service) dispatch(e *exchange, d *delivery) error {
	w, ok := s.wayTo(e.peer)
	if !ok {
		w = way{mail: s.mail(e.agent.ID)}
	}
	delivered, err := s.deliver(context.Background(), e, w, d)
	if err == nil && !delivered {
		err = e.target().unreachable().err
	}
	return err
}

// Expect listens for the answer to a call that was sent before, perhaps by an
// earlier process.
func (s *Service) Expect(c *DurableCall) {
	if c.Agent != "" { // an endpoint answers where it is called, or not at all
		_, _ = s.stand(c)
	}
}

// recallPatience is how long an agent has to say what it knows of a call.
const recallPatience = 5 * time.Second

// Recall asks the agent for the result of a call that was sent before, with the
// command task.get (docs/protocol.md#an-agents-side-of-a-call). An agent that
// has the answer sends it again; one that does not know the call says so.
func (s *Service) Recall(c *DurableCall) error {
	if c.Agent == "" {
		return protocol.Errorf(protocol.InvalidState, "an endpoint of a skill is not asked for results")
	}
	e, err := s.stand(c)
	if err != nil {
		return err
	}
	var undelivered atomic.Bool
	question := &exchange{id: s.newID(), standing: true, caller: e.caller, party: partyOf{ended: func(o outcome) {
		if !undelivered.Load() {
			s.recalled(c, o)
		}
	}}}
	s.exchanges.enter(question, []peer{e.peer})
	time.AfterFunc(recallPatience, func() { s.exchanges.end(question, outcome{kind: abandoned}) })
	params, err := json.Marshal(map[string]string{"task_id": c.ID})
	if err != nil {
		return err
	}
	envelope := s.envelope(question.id, "task.get", params, c.call(), time.Now())
	envelope.Metadata.Timeout = recallPatience
	err = s.dispatch(question, &delivery{envelope: &envelope, expiry: recallPatience})
	if err != nil {
		undelivered.Store(true)
		s.exchanges.end(question, outcome{kind: abandoned})
	}
	return err
}

// recalled makes out what an agent says to a recall. A result that is known
// comes as the answer to the call itself.
func (s *Service) recalled(c *DurableCall, o outcome) {
	switch {
	case o.kind == gone: // the call itself is told
	case o.kind != answered:
		c.Listener.Mute()
	case o.response.Err == nil:
		var known struct {
			State string `json:"state"`
		}
		if json.Unmarshal(o.response.Result, &known) != nil || known.State == "" {
			c.Listener.Mute() // a device that answers everything alike
		} else if known.State == "running" {
			c.Listener.Took()
		}
	case o.response.Err.Code == protocol.NotFound:
		var since time.Time
		if up, ok := number(o.response.Err.Details["listening_ms"]); ok && up >= 0 {
			since = time.Now().Add(-time.Duration(up) * time.Millisecond)
		}
		c.Listener.Forgotten(since)
	default:
		c.Listener.Mute()
	}
}

// number is a JSON number that a detail of an error holds.
func number(v any) (int64, bool) {
	switch n := v.(type) {
	case float64:
		return int64(min(max(n, -1), 1e15)), true
	case int64:
		return n, true
	case int:
		return int64(n), true
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

// Drop stops listening for a call.
func (s *Service) Drop(id string) {
	if e := s.exchanges.find(id); e != nil {
		s.exchanges.mu.Lock()
		s.exchanges.remove(e)
		s.exchanges.mu.Unlock()
		e.done.Store(true)
	}
}

// CancelStanding stops listening for a call and tells the agent to stop working
// on it.
func (s *Service) CancelStanding(c *DurableCall, reason string) {
	e := s.exchanges.find(c.ID)
	s.Drop(c.ID)
	if e != nil {
		s.cancel(context.Background(), e, request{call: c.call()}, reason)
	}
}

// stand opens the exchange of a call, unless it is open.
func (s *Service) stand(c *DurableCall) (*exchange, error) {
	if e := s.exchanges.find(c.ID); e != nil {
		return e, nil
	}
	to, err := s.peerOf(c)
	if err != nil {
		return nil, err
	}
	e := &exchange{id: c.ID, standing: true, caller: c.party()}
	e.party = partyOf{ended: func(o outcome) { s.heard(c, e, o) }, onEvent: func(name string, data []byte) {
		if name == taskAccepted {
			c.Listener.Took()
		} else {
			c.Listener.Progressed(append([]byte(nil), data...))
		}
	}}
	s.exchanges.enter(e, []peer{to})
	return e, nil
}

// peerOf is whom a call goes to: its agent, or its skill.
func (s *Service) peerOf(c *DurableCall) (peer, error) {
	if c.Agent != "" {
		a, _, ok := s.opts.Agents.Get(tableKey(c.Space, c.Agent))
		if !ok {
			return peer{}, protocol.Errorf(protocol.AgentOffline, "agent %q is not registered any more", c.Agent).With("agent_id", string(c.Agent))
		}
		return peer{agent: a}, nil
	}
	r, _, ok := s.opts.Skills.Get(tableKey(c.Space, c.Skill))
	if !ok {
		return peer{}, notFound("skill", c.Skill)
	}
	if capability, ok := r.capability(c.Capability); ok {
		c.again = capability.repeatable()
	}
	return peer{endpoints: r.overHTTP()}, nil
}

// heard tells the listener how a call went on. The agent's being gone does not
// end it.
func (s *Service) heard(c *DurableCall, e *exchange, o outcome) {
	switch o.kind {
	case gone:
		c.Listener.Left()
		return
	case rejected:
		c.Listener.Declined(e.target().rejected(o.reason).err)
		return
	}
	response, f := o.judge(e.target())
	if f == nil {
		f = s.checkStanding(c, e.target(), response.Result)
	}
	if f != nil {
		c.Listener.Refused(f.err)
		return
	}
	c.Listener.Answered(bytes.Clone(response.Result))
}

// checkStanding checks a result against the capability's schema, if the skill
// still has it.
func (s *Service) checkStanding(c *DurableCall, t target, result json.RawMessage) *failure {
	r, _, ok := s.opts.Skills.Get(tableKey(c.Space, c.Skill))
	if !ok {
		return nil
	}
	capability, ok := r.capability(c.Capability)
	if !ok {
		return nil
	}
	return s.checkResult(t, capability, result)
}

// party is whose share of the calls that nobody waits for it uses up.
func (c *DurableCall) party() fair.Party {
	return fair.Party{Principal: c.Caller, Space: string(c.Space), Privileged: c.Caller == ""}
}

// call is the call as the parts see it that work for callers who wait.
func (c *DurableCall) call() *commands.Call {
	return &commands.Call{TraceID: c.TraceID, Priority: c.Priority, Deadline: c.Deadline, Extension: c.Extension}
}

// String names the call in logs.
func (c *DurableCall) String() string {
	return fmt.Sprintf("%s of %s (%s)", c.Capability, c.Skill, c.ID)
}
