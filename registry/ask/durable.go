package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A Durable is an invocation of a skill that survives the loss of connections, the
// absence of its agent, and a restart of the bridge: it may be repeated, recalled and
// answered under the same id.
type Durable struct {
	ID         string // of the envelope, the caller's choice
	Space      protocol.SpaceID
	Skill      protocol.SkillID
	Agent      protocol.AgentID // its agent, "" for an HTTP endpoint
	Capability protocol.CapabilityID
	Params     json.RawMessage // an object
	Extension  json.RawMessage // vendor data of the request, nil without any
	Caller     string          // the party on whose behalf the invocation is made, as text; "" for the bridge's own
	TraceID    string
	Priority   protocol.Priority
	Deadline   time.Time
	Listener   Listener

	idempotent bool // running it twice is as good as once
}

// AskDurably sends the invocation, again if it was sent before, and listens for
// replies. The listener gets [Left] if no connected agent got it; it may lie in the
// session of an agent that has just disconnected.
func (s *Service) AskDurably(d *Durable) {
	e, ok := s.listen(d)
	left := time.Until(d.Deadline)
	if !ok || left <= 0 {
		d.Listener.Hear(Notice{Kind: Left, Agent: d.Agent})
		return
	}
	envelope := s.envelope(d.ID, InvokeCommand, InvokeParams(d.Skill, d.Capability, d.Params), d.call(), time.Now())
	envelope.Extension = d.Extension
	var who protocol.Party
	if who.UnmarshalText([]byte(d.Caller)) == nil && d.Agent != "" {
		envelope.Metadata.SenderID = s.sender(AgentKey{d.Space, d.Agent}, who)
	}
	// A dispatch may last longer than a request, but the timeout in its envelope may
	// not exceed the limit of a request.
	envelope.Metadata.Timeout = min(max(left.Truncate(time.Millisecond), time.Millisecond), protocol.MaxTimeout)
	envelope.Metadata.Events = true
	if !s.dispatch(e, &delivery{envelope: envelope, expiry: left, caller: s.callers.ofNamed(d.Caller), again: d.idempotent}) {
		d.Listener.Hear(Notice{Kind: Left, Agent: d.Agent})
	}
}

// Expect listens for the answer to an invocation that was sent before, perhaps
// by an earlier process.
func (s *Service) Expect(d *Durable) {
	if d.Agent != "" { // an endpoint answers where it is called, or not at all
		_, _ = s.listen(d)
	}
}

// Drop stops listening for an invocation.
func (s *Service) Drop(id string) {
	if e := s.exchanges.find(id); e != nil {
		s.exchanges.withdraw(e)
	}
}

// CancelDurable stops listening for an invocation and asks the agent to stop working on
// it.
func (s *Service) CancelDurable(d *Durable, reason string) {
	e := s.exchanges.find(d.ID)
	s.Drop(d.ID)
	if e != nil {
		s.cancel(context.Background(), e, d.call(), reason)
	}
}

// listen opens the exchange of an invocation, unless it is open. It reports false if
// the agent or skill of the invocation is not registered any more.
func (s *Service) listen(d *Durable) (*exchange, bool) {
	if e := s.exchanges.find(d.ID); e != nil {
		return e, true
	}
	to, ok := s.peerOf(d)
	if !ok {
		return nil, false
	}
	w := &durableWaiter{service: s, durable: d}
	w.id, w.exchange.durable, w.caller, w.waiter = d.ID, true, d.party(), w
	s.exchanges.enter(&w.exchange, []Peer{to})
	return &w.exchange, true
}

// peerOf is the receiver of an invocation: its agent, or its skill.
func (s *Service) peerOf(d *Durable) (to Peer, ok bool) {
	if d.Agent != "" {
		to.Agent, ok = s.opts.Directory.Agent(AgentKey{d.Space, d.Agent})
		return to, ok
	}
	to.Endpoints, d.idempotent, ok = s.opts.Directory.Endpoints(d.key())
	return to, ok
}

// dispatch delivers a request that no caller waits for. It reports whether a connected
// peer gets it.
func (s *Service) dispatch(e *exchange, d *delivery) bool {
	delivered, err := s.deliver(context.Background(), e, s.wayOrSession(e.Peer), d)
	if err != nil {
		s.log.Debug("request not sent", "agent", e.agentID(), "error", err)
	}
	return err == nil && delivered
}

// A durableWaiter is the exchange of an invocation, and passes its outcomes on.
type durableWaiter struct {
	exchange
	service *Service
	durable *Durable
}

// hear passes the outcome of the invocation to its listener. The absence of the agent
// does not end it.
func (w *durableWaiter) hear(o outcome) {
	if o.abandoned() {
		return
	}
	d := w.durable
	f := o.failure
	if f == nil {
		if err := w.service.opts.Directory.CheckResult(d.key(), o.result); err != nil {
			f = w.target().invalid(err)
			w.service.unfit(w.Agent, f)
		}
	}
	if f != nil {
		d.Listener.Hear(Notice{Kind: f.kind, Agent: d.Agent, Err: f.err})
		return
	}
	d.Listener.Hear(Notice{Kind: Answered, Agent: d.Agent, Data: bytes.Clone(o.result)})
}

// undelivered reports that another bridge did not reach the agent.
func (w *durableWaiter) undelivered() {
	w.durable.Listener.Hear(Notice{Kind: Left, Agent: w.durable.Agent})
}

func (w *durableWaiter) event(name string, data []byte) {
	n := Notice{Kind: Accepted, Agent: w.durable.Agent}
	if name != taskAccepted {
		n.Kind, n.Data = Progressed, append([]byte(nil), data...)
	}
	w.durable.Listener.Hear(n)
}

// recallPatience is the time limit of an agent's answer to a recall.
const recallPatience = 5 * time.Second

// Recall asks the agent for the result of an invocation that was sent before, with the
// command task.get (docs/protocol.md#an-agents-side-of-a-call). An agent that has the
// answer sends it again; one that does not know the invocation answers so. The listener
// gets [Left] if the agent cannot be asked.
func (s *Service) Recall(d *Durable) {
	e, ok := s.listen(d)
	if !ok || d.Agent == "" { // an endpoint of a skill is not asked for results
		d.Listener.Hear(Notice{Kind: Left, Agent: d.Agent})
		return
	}
	r := &recall{service: s, durable: d}
	r.id, r.exchange.durable, r.caller, r.waiter = s.opts.NewID(), true, e.caller, r
	s.exchanges.enter(&r.exchange, []Peer{e.Peer})
	time.AfterFunc(recallPatience, func() { s.exchanges.end(&r.exchange, outcome{}) })
	params, _ := json.Marshal(map[string]string{"task_id": d.ID})
	envelope := s.envelope(r.id, "task.get", params, d.call(), time.Now())
	envelope.Metadata.Timeout = recallPatience
	if !s.dispatch(&r.exchange, &delivery{envelope: envelope, expiry: recallPatience}) {
		r.undelivered()
	}
}

// A recall is the exchange that asks an agent for the result of an invocation.
type recall struct {
	exchange
	service *Service
	durable *Durable
	unasked atomic.Bool // the agent cannot be asked
}

func (r *recall) undelivered() {
	r.unasked.Store(true)
	if r.service.exchanges.end(&r.exchange, outcome{}) {
		r.durable.Listener.Hear(Notice{Kind: Left, Agent: r.durable.Agent})
	}
}

func (r *recall) event(string, []byte) {}

// hear interprets the agent's answer to a recall. A known result comes as the answer to
// the invocation itself.
func (r *recall) hear(o outcome) {
	f := o.failure
	if r.unasked.Load() || f != nil && f.kind == Left { // the invocation gets this outcome itself
		return
	}
	n := Notice{Kind: Mute, Agent: r.durable.Agent}
	switch {
	case f != nil && f.err.Code == protocol.NotFound:
		n.Kind = Forgotten
		if up, ok := number(f.err.Details["listening_ms"]); ok && up >= 0 {
			n.Since = time.Now().Add(-time.Duration(up) * time.Millisecond)
		}
	case o.answered:
		var known struct {
			State string `json:"state"`
		}
		if json.Unmarshal(o.result, &known) == nil && known.State != "" {
			if known.State != "running" {
				return
			}
			n.Kind = Accepted
		} // else a device that answers everything alike
	}
	r.durable.Listener.Hear(n)
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

// party is the party whose share of calls without a waiting caller the invocation uses.
func (d *Durable) party() fair.Party {
	return fair.Party{Principal: d.Caller, Space: string(d.Space), Privileged: d.Caller == ""}
}

// key is the capability that is invoked.
func (d *Durable) key() CapabilityKey { return CapabilityKey{d.Space, d.Skill, d.Capability} }

// call is the invocation in the form of a call, for code that also serves waiting
// callers.
func (d *Durable) call() *commands.Call {
	return &commands.Call{TraceID: d.TraceID, Priority: d.Priority, Deadline: d.Deadline, Extension: d.Extension}
}
