package registry

import (
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// CertificateEnded suspends the agents that were registered with a certificate
// which is no longer valid: their calls fail with err, their cards are withdrawn,
// and they get no calls until they are registered anew. It returns their ids.
func (s *Service) CertificateEnded(serial protocol.Serial, err *protocol.Error) (suspended []protocol.AgentID) {
	for a := range s.index.allAgents() {
		if a.CertSerial != serial || s.certified(a) == nil {
			continue
		}
		s.asking.Barred(a.Key(), err)
		s.board.suspend(a.Key(), err.Message)
		s.card(a.Key())
		suspended = append(suspended, a.ID)
	}
	slices.Sort(suspended)
	return suspended
}

// certified fails if the certificate that an agent was registered with is no longer
// valid.
func (s *Service) certified(a *Agent) error {
	if a.CertSerial == "" || s.opts.Certified == nil {
		return nil
	}
	return s.opts.Certified(a.CertSerial)
}

// suspendEnded suspends the agents whose certificates ended while the bridge
// was down.
func (s *Service) suspendEnded() {
	for a := range s.index.allAgents() {
		if err := s.certified(a); err != nil {
			s.board.suspend(a.Key(), protocol.AsError(err).Message)
		}
	}
}

// suspend takes an agent offline until it is registered anew.
func (b *board) suspend(key ask.AgentKey, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil || b.certified(p.agent) == nil { // registered anew meanwhile
		return
	}
	p.suspended = true
	b.judge(p, reason)
}

// status is the status of an agent in results of commands.
func (s sighting) status() Status {
	if s.suspended {
		return Suspended
	}
	return statusOf(s.online)
}
