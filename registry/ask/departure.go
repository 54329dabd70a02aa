package ask

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Unregistered ends what an agent was asked, since it is not registered any more.
func (s *Service) Unregistered(key AgentKey) {
	s.exchanges.endSome(key, gone("unregistered"), func(*exchange) bool { return true })
}

// Barred ends what an agent was asked, since it may not be asked any more. err
// says why.
func (s *Service) Barred(key AgentKey, err *protocol.Error) {
	s.exchanges.endSome(key, func(t target) *failure { return t.banned(err).left() }, func(*exchange) bool { return true })
}

// Offline ends what an agent was asked, since nothing is heard of it any more.
// Where an endpoint is being called it is the call that tells. It may be called
// with locks of the directory held.
func (s *Service) Offline(key AgentKey, reason string) {
	s.exchanges.endSome(key, gone(reason), func(e *exchange) bool { return e.hangUp == nil })
}

// Departed ends what an agent was asked over its connections with one bridge, which
// have ended. It may be called with locks of the directory held.
func (s *Service) Departed(key AgentKey, at Bridge, reason string) {
	s.exchanges.endSome(key, gone(reason), func(e *exchange) bool { return e.bridge == at && e.hangUp == nil })
}

// HungUp ends what an agent was asked over a line that has ended.
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
