package ask

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

// Others are the other bridges of a cluster. A request to an agent that is connected to
// one of them is handed to that bridge, which hands back the agent's answers.
type Others interface {
	// Say passes a message to [Service.Said] of a bridge, once and in order. It reports
	// false if the bridge is not reachable.
	Say(to Bridge, message []byte) bool
	// Asker returns the bridge that waits for the answer to a request, by the id of the
	// request.
	Asker(id string) (b Bridge, ok bool)
}

// The kinds of messages between bridges about requests.
const (
	saidRequest byte = iota + 1 // a requestHead, and the envelope for the agent
	saidAnswer                  // an answerHead, and the agent's message
	saidMissed                  // a missedHead: the request of that id did not get to its agent
)

// A requestHead is the header of a request that is handed to another bridge.
type requestHead struct {
	ID     string           `json:"id"` // of the exchange
	Space  protocol.SpaceID `json:"space"`
	Agent  protocol.AgentID `json:"agent"`
	Expiry int64            `json:"expiry_ms"`
	Caller string           `json:"caller,omitempty"`
	Trace  string           `json:"trace,omitempty"` // its trace_id
	Parent string           `json:"parent,omitempty"`
	Notice bool             `json:"notice,omitempty"`
}

// An answerHead is the header of an answer that is handed back. The bridge that the agent
// is connected to vouches for the sender.
type answerHead struct {
	Agent       protocol.AgentID `json:"agent,omitempty"` // agent of the topic, "" over a line
	Over        []AgentKey       `json:"over,omitempty"`  // the agents that may have been asked over the line
	Who         protocol.Party   `json:"who"`
	Correlation string           `json:"correlation,omitempty"`
}

type missedHead struct {
	ID     string `json:"id"`
	Queued bool   `json:"queued,omitempty"` // in the session of an agent that just went
}

// say encodes a message: its kind, the length of the head, the head, the rest.
func say(kind byte, head any, rest []byte) []byte {
	h, _ := json.Marshal(head) // texts and numbers
	b := append(make([]byte, 0, 1+binary.MaxVarintLen32+len(h)+len(rest)), kind)
	b = binary.AppendUvarint(b, uint64(len(h)))
	return append(append(b, h...), rest...)
}

// cut takes a message apart.
func cut(message []byte) (kind byte, head, rest []byte, ok bool) {
	if len(message) == 0 {
		return 0, nil, nil, false
	}
	n, size := binary.Uvarint(message[1:])
	if size <= 0 || n > uint64(len(message)-1-size) {
		return 0, nil, nil, false
	}
	head = message[1+size:]
	return message[0], head[:n], head[n:], true
}

// handOver gives a request to the bridge that its agent is connected to.
func (s *Service) handOver(ctx context.Context, e *exchange, to Bridge, d *delivery) bool {
	s.exchanges.mu.Lock()
	e.bridge, e.line = to, nil
	s.exchanges.mu.Unlock()
	key := e.Agent.Key()
	return s.opts.Others.Say(to, say(saidRequest, requestHead{
		ID: e.id, Space: key.Space, Agent: key.ID, Expiry: d.expiry.Milliseconds(), Caller: d.caller,
		Trace: d.envelope.Metadata.TraceID, Parent: semconv.Traceparent(ctx), Notice: d.notice,
	}, d.envelope.Append(nil)))
}

// handBack passes a message of an agent to the bridge that waits for it, if that is
// another one. An answer refers to its request by the id, or else by the Correlation
// Data.
func (s *Service) handBack(id, correlation string, head answerHead, payload []byte) bool {
	for _, about := range []string{id, correlation} {
		if about == "" {
			continue
		}
		if to, ok := s.asker(about); ok {
			head.Correlation = correlation
			return s.opts.Others.Say(to, say(saidAnswer, head, payload))
		}
	}
	return false
}

// Said handles a message of another bridge. It does not retain the message, and reports
// false if it is invalid.
func (s *Service) Said(from Bridge, message []byte) bool {
	kind, head, rest, ok := cut(message)
	if !ok {
		return false
	}
	switch kind {
	case saidRequest:
		var h requestHead
		if json.Unmarshal(head, &h) != nil {
			return false
		}
		s.handed(from, &h, rest)
	case saidAnswer:
		var h answerHead
		if json.Unmarshal(head, &h) != nil {
			return false
		}
		s.handedBack(&h, rest)
	case saidMissed:
		var h missedHead
		if json.Unmarshal(head, &h) != nil {
			return false
		}
		s.missed(from, &h)
	default:
		return false
	}
	return true
}

// handed sends a request of another bridge to an agent that is connected to this one.
// If the agent is not, it informs the other bridge.
func (s *Service) handed(from Bridge, h *requestHead, envelope []byte) {
	key := AgentKey{h.Space, h.Agent}
	delivered, queued := false, false
	if agent, ok := s.opts.Directory.Agent(key); ok {
		if _, told := s.opts.Others.Asker(h.ID); !told && !h.Notice {
			s.handovers.note(h.ID, from)
		}
		d := &delivery{raw: envelope, expiry: time.Duration(h.Expiry) * time.Millisecond, caller: h.Caller, parent: h.Parent, notice: h.Notice}
		d.envelope.Metadata.TraceID = h.Trace
		delivered, queued = s.deliverHere(&exchange{id: h.ID, Peer: Peer{Agent: agent}}, d)
	}
	if !delivered && !h.Notice {
		s.opts.Others.Say(from, say(saidMissed, missedHead{ID: h.ID, Queued: queued}, nil))
	}
}

// deliverHere sends a request by a connection with this bridge. A mere notice may wait in
// a session; another request does, and is queued, if the agent goes at this moment.
func (s *Service) deliverHere(e *exchange, d *delivery) (delivered, queued bool) {
	w, ok := s.opts.Directory.WayHere(e.Agent.Key())
	if !ok && d.notice {
		w, ok = Way{Topics: TopicsOf(s.opts.Topics, e.Agent.Key().ID)}, true
	}
	if !ok || w.Topics.Request == "" && w.Line == nil {
		return false, false
	}
	delivered, err := s.deliver(context.Background(), e, w, d)
	if err != nil {
		s.log.Debug("request of another bridge not sent", "agent", e.agentID(), "error", err)
		return false, false
	}
	return delivered, !delivered && w.Topics.Request != ""
}

// handedBack handles a message of an agent that is connected to another bridge.
func (s *Service) handedBack(h *answerHead, payload []byte) {
	message, err := protocol.ViewReply(payload, s.opts.Limits)
	e := s.exchanges.answered([]byte(message.ID()), []byte(h.Correlation))
	defer e.release()
	switch {
	case e == nil:
		s.unasked(s.senderOf(h), &message)
	case !h.answers(e):
		s.foreign(s.senderOf(h), e)
	default:
		s.hear(e, message, err)
	}
}

// answers reports whether the agent that an exchange is with has sent the answer.
func (h *answerHead) answers(e *exchange) bool {
	switch {
	case e.Agent == nil || !e.Agent.IsOf(h.Who):
		return false
	case h.Agent != "":
		return e.agentID() == h.Agent
	}
	return slices.Contains(h.Over, e.Agent.Key())
}

// senderOf returns the agent that has sent an answer, if it is known.
func (s *Service) senderOf(h *answerHead) Sender {
	if a, ok := s.opts.Directory.Agent(AgentKey{h.Who.Space, h.Agent}); ok && a.IsOf(h.Who) {
		return Sender{Agent: a}
	}
	return Sender{}
}

// missed takes that a request which was handed to a bridge did not get to its
// agent, and perhaps waits for it there.
func (s *Service) missed(from Bridge, h *missedHead) {
	e := s.exchanges.handedTo(from, h.ID)
	defer e.release()
	if e == nil {
		return
	}
	if w, ok := e.waiter.(interface{ undelivered() }); ok { // a durable request stays open
		w.undelivered()
		return
	}
	f := e.target().unreachable()
	if h.Queued {
		f = e.target().justLeft()
	}
	if s.exchanges.end(e, outcome{failure: f}) {
		s.cancel(context.Background(), e, e.call, "not delivered in time")
	}
}

// handedTo is the open exchange with the id that was handed to a bridge, held.
func (x *exchanges) handedTo(at Bridge, id string) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.open.get([]byte(id)); e != nil && e.bridge == at {
		return e.hold()
	}
	return nil
}
