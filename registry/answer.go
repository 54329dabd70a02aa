package registry

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// Answer takes what a client published on an agent's response topic: the
// answer to a request, or an event about it. What nobody waits for is counted
// and dropped. It does not block and keeps neither payload nor correlation.
func (s *Service) Answer(topic string, who *protocol.Principal, payload, correlation []byte) {
	agent, leaf, ok := s.opts.Topics.Agent(topic)
	if !ok || leaf != "response" {
		return
	}
	message, err := protocol.ViewReply(payload, s.opts.Limits)
	e := s.exchanges.find(message.ID())
	if e == nil {
		e = s.exchanges.find(string(correlation))
	}
	switch {
	case e == nil && err != nil:
		s.drop(dropMalformed, string(agent), err.Error())
		reason := err.Error()
		if message.ID() == "" {
			reason = "it does not tell what it answers: " + reason
		}
		if a := s.board.speaker(agent, who); a != nil {
			s.complain(a, reason)
		}
	case e == nil:
		s.drop(dropUnknown, string(agent), message.ID())
	case e.agent == nil || e.agent.ID != agent || !e.agent.belongsTo(who):
		s.drop(dropForeign, string(agent), e.id)
	default:
		s.hear(e, message, err)
	}
}

// hear takes what somebody who was asked says about it. err is why it could not
// be read.
func (s *Service) hear(e *exchange, m protocol.Envelope, err error) {
	switch {
	case err != nil:
		s.unreadable(e, err.Error())
	case m.Event != nil:
		s.onEvent(e, m.Event)
	case m.Response != nil:
		s.exchanges.end(e, outcome{kind: answered, response: m.Response})
	default:
		s.unreadable(e, "a request is no answer")
	}
}

// unreadable ends an exchange whose answer makes no sense.
func (s *Service) unreadable(e *exchange, reason string) {
	s.complain(e.agent, reason)
	s.exchanges.end(e, outcome{kind: garbled, reason: reason})
}

func (s *Service) drop(reason, from, what string) {
	s.metrics.dropped.WithLabelValues(reason).Inc()
	s.log.Debug("message of an agent dropped", "reason", reason, "from", from, "what", what)
}

// The events an agent may send before its answer
// (docs/protocol.md#an-agents-side-of-a-call).
const (
	taskAccepted = "task.accepted"
	taskRejected = "task.rejected"
	taskProgress = "task.progress"
	taskDelta    = "task.delta"
)

func (s *Service) onEvent(e *exchange, event *protocol.Event) {
	switch event.Name {
	case taskAccepted, taskProgress, taskDelta:
		e.event(event.Name, event.Data)
	case taskRejected:
		var data struct {
			Reason string `json:"reason"`
		}
		if json.Unmarshal(event.Data, &data) != nil || data.Reason == "" {
			data.Reason = "no reason given"
		}
		s.exchanges.end(e, outcome{kind: rejected, reason: data.Reason})
	default:
		s.drop(dropEvent, e.target().id, event.Name)
	}
}

// judge turns the end of an exchange into an answer or a failure.
func (o outcome) judge(t target) (*protocol.Response, *failure) {
	switch o.kind {
	case answered:
		if o.response.Err != nil {
			return nil, t.refused(o.response.Err)
		}
		return o.response, nil
	case garbled:
		return nil, t.garbled(o.reason)
	case rejected:
		return nil, t.rejected(o.reason)
	case undelivered:
		return nil, o.failure
	default:
		if o.err != nil {
			return nil, t.banned(o.err)
		}
		return nil, t.gone(o.reason)
	}
}
