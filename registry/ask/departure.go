package ask

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Unregistered ends the open requests to an agent that is not registered any more.
func (s *Service) Unregistered(key AgentKey) {
	s.exchanges.endSome(key, gone("unregistered"), func(*exchange) bool { return true })
}

// Barred ends the open requests to an agent that may not get requests any more; err is
// the reason.
func (s *Service) Barred(key AgentKey, err *protocol.Error) {
	s.exchanges.endSome(key, func(t target) *failure { return t.banned(err).left() }, func(*exchange) bool { return true })
}

// Offline ends the open requests to an agent that has gone silent, except for calls of
// endpoints, whose own outcome counts. It may be called with locks of the directory
// held.
func (s *Service) Offline(key AgentKey, reason string) {
	s.exchanges.endSome(key, gone(reason), func(e *exchange) bool { return e.hangUp == nil })
}

// Departed ends the requests to an agent over its connections with one bridge, which
// have ended. It may be called with locks of the directory held.
func (s *Service) Departed(key AgentKey, at Bridge, reason string) {
	s.exchanges.endSome(key, gone(reason), func(e *exchange) bool { return e.bridge == at && e.hangUp == nil })
}

// HungUp ends the requests to an agent over a line that has ended.
func (s *Service) HungUp(line commands.Line, key AgentKey, reason string) {
	s.exchanges.endSome(key, gone(reason), func(e *exchange) bool { return e.line == line })
}

func gone(reason string) func(target) *failure {
	return func(t target) *failure { return t.gone(reason).left() }
}

// left marks the failure as one that leaves durable requests open.
func (f *failure) left() *failure {
	f.kind = Left
	return f
}
