package http

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Agents are asked over /ws connections and answer there.
type Agents interface {
	// AnswerOver takes a message that came over a served line. It reports whether it was
	// an answer; any other message is a request. It does not block and keeps nothing of
	// the payload.
	AnswerOver(line commands.Line, who *protocol.Principal, payload []byte) bool
	// HungUp is called when a line that was attended to has ended.
	HungUp(line commands.Line, reason string)
}

// line is the socket as the bridge may ask something on it, nil if it may not.
func (s *socket) line() commands.Line {
	if s.api.Agents == nil {
		return nil
	}
	return s
}

// Attend implements [commands.Line].
func (s *socket) Attend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.draining {
		return false
	}
	s.attended.Store(true)
	return true
}

// Send implements [commands.Line].
func (s *socket) Send(message []byte) bool { return s.out.put(message) }

// hangUp notifies the handler of the connection that it has ended.
func (s *socket) hangUp() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.out.close()
	if s.attended.Load() {
		s.api.Agents.HungUp(s, "connection closed")
	}
}
