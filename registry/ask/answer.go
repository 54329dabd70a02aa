package ask

import (
	"encoding/json"
	"fmt"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Answer takes a message that a client published on an agent's response topic: the answer
// to a request, or an event about it. The replies are the patterns of that client's
// earlier replies, nil for none. Messages about no open request are counted and dropped.
// It does not block and keeps neither payload nor correlation.
func (s *Service) Answer(topic string, who *protocol.Principal, replies *protocol.Replies, payload, correlation []byte) {
	agent, leaf, ok := s.opts.Topics.Agent(topic)
	if !ok || leaf != "response" {
		return
	}
	if s.answeredAsUsual(agent, who, replies, payload, correlation) {
		return
	}
	message, err := protocol.ViewReply(payload, s.opts.Limits)
	e := s.exchanges.answered([]byte(message.ID()), correlation)
	defer e.release()
	switch {
	case e == nil && s.opts.Others != nil && s.handBack(message.ID(), string(correlation), answerHead{Agent: agent, Who: who.Party()}, payload):
	case e == nil && err != nil:
		s.drop(dropMalformed, string(agent), err.Error())
		reason := err.Error()
		if message.ID() == "" {
			reason = "it does not tell what it answers: " + reason
		}
		s.complain(Sender{ID: agent, Who: who}, Unreadable, reason)
	case e == nil:
		s.unasked(Sender{ID: agent, Who: who}, &message)
	case !e.isWith(agent, who):
		s.foreign(Sender{ID: agent, Who: who}, e)
	default:
		s.hear(e, message, err)
		if replies != nil && message.Response != nil && replies.Learns() {
			replies.Learn(protocol.ResponsePattern(payload, s.opts.Limits), struct{}{})
		}
	}
}

// answeredAsUsual handles a successful answer to an open request, from an agent that
// answered in the same form before. It reports false for all other messages.
func (s *Service) answeredAsUsual(agent protocol.AgentID, who *protocol.Principal, replies *protocol.Replies, payload, correlation []byte) bool {
	if replies == nil {
		return false
	}
	var fit protocol.Fit
	if replies.Fit(payload, &fit) == nil {
		return false
	}
	e := s.exchanges.take(agent, who, fit.ID, correlation)
	if e == nil {
		return false
	}
	e.conclude(answered(fit.Body))
	return true
}

// AnswerOver takes a message that came over a served line. It reports false for one that
// is neither an answer nor an event: a request of the agent's own, or an unreadable
// message. It does not block and keeps nothing of the payload.
func (s *Service) AnswerOver(line commands.Line, who *protocol.Principal, payload []byte) bool {
	message, err := protocol.ViewReply(payload, s.opts.Limits)
	e := s.exchanges.find(message.ID())
	defer e.release()
	switch {
	case e == nil && message.Request != nil:
		return false
	case e == nil && s.opts.Others != nil && s.handBack(message.ID(), "", answerHead{Over: s.opts.Directory.AskedOver(line), Who: who.Party()}, payload):
	case e == nil && err != nil:
		s.drop(dropMalformed, "", err.Error())
		s.complain(Sender{Line: line}, Unreadable, "it does not tell what it answers: "+err.Error())
		return false // the caller returns the error to the sender
	case e == nil:
		s.unasked(Sender{Line: line}, &message)
	case e.Agent == nil || !e.Agent.BelongsTo(who) || e.line != line && !s.opts.Directory.Answers(line, e.Agent.Key()):
		s.foreign(Sender{Line: line}, e)
	default:
		s.hear(e, message, err)
	}
	return true
}

// unasked drops an answer without an open request: it is late, repeated, or has an
// unknown id.
func (s *Service) unasked(from Sender, m *protocol.Envelope) {
	s.drop(dropUnknown, string(from.ID), m.ID())
	if m.Event != nil { // progress that crossed the end of its request
		return
	}
	what := Unasked
	if s.opts.Made(m.ID()) {
		what = Late
	}
	s.complain(from, what, fmt.Sprintf("id %q", m.ID()))
}

// foreign drops a message about a request of another agent.
func (s *Service) foreign(from Sender, e *exchange) {
	s.drop(dropForeign, string(from.ID), e.id)
	s.complain(from, Foreign, fmt.Sprintf("id %q", e.id))
}

// hear takes a message of the peer that was asked. err is the reason why it could not be
// read.
func (s *Service) hear(e *exchange, m protocol.Envelope, err error) {
	switch {
	case err != nil:
		s.unreadable(e, err.Error())
	case m.Event != nil:
		s.onEvent(e, m.Event)
	case m.Response != nil && m.Response.Err != nil:
		s.exchanges.end(e, outcome{failure: e.target().refused(m.Response.Err)})
	case m.Response != nil:
		s.exchanges.end(e, answered(m.Response.Result))
	default:
		s.unreadable(e, "a request is no answer")
	}
}

// unreadable ends an exchange with an invalid answer.
func (s *Service) unreadable(e *exchange, reason string) {
	s.complain(Sender{Agent: e.Agent}, Unreadable, reason)
	s.exchanges.end(e, outcome{failure: e.target().garbled(reason)})
}

// complain reports a mistake of an agent to the directory, for its operator.
func (s *Service) complain(from Sender, what Mistake, reason string) {
	s.opts.Directory.Complain(from, what, plain(reason))
}

// unfit complains of a result that does not fit.
func (s *Service) unfit(agent Agent, f *failure) {
	s.complain(Sender{Agent: agent}, Unfit, f.err.Message)
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
		s.exchanges.end(e, outcome{failure: e.target().rejected(data.Reason)})
	default:
		s.drop(dropEvent, e.target().id, event.Name)
		s.complain(Sender{Agent: e.Agent}, UnknownEvent, fmt.Sprintf("event %q", event.Name))
	}
}
