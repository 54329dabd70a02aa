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
	message, err := protocol.ViewMessage(payload, s.opts.Limits)
	e := s.exchanges.find(idOf(message))
	if e == nil {
		e = s.exchanges.find(string(correlation))
	}
	switch {
	case e == nil && err != nil:
		s.drop(dropMalformed, agent, err.Error())
	case e == nil:
		s.drop(dropUnknown, agent, idOf(message))
	case e.agent.ID != agent || !e.agent.belongsTo(who):
		s.drop(dropForeign, agent, e.id)
	case err != nil:
		s.exchanges.end(e, outcome{kind: garbled, reason: err.Error()})
	case message.Event != nil:
		s.onEvent(e, message.Event)
	case message.Response != nil:
		s.exchanges.end(e, outcome{kind: answered, response: message.Response})
	default:
		s.exchanges.end(e, outcome{kind: garbled, reason: "a request is no answer"})
	}
}

// idOf is the id of the request a message is about.
func idOf(m protocol.Message) string {
	switch {
	case m.Response != nil:
		return m.Response.ID
	case m.Event != nil:
		return m.Event.ID
	}
	return ""
}

func (s *Service) drop(reason string, agent protocol.AgentID, what string) {
	s.metrics.dropped.WithLabelValues(reason).Inc()
	s.log.Debug("message of an agent dropped", "reason", reason, "agent", agent, "what", what)
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
		s.drop(dropEvent, e.agent.ID, event.Name)
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
		return nil, t.nonsense("", o.reason)
	case rejected:
		return nil, t.rejected(o.reason)
	default:
		if o.err != nil {
			return nil, t.banned(o.err)
		}
		return nil, t.gone(o.reason)
	}
}
