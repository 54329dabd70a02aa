package app

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/shadow"
)

// newShadows makes the part that keeps the desired and the reported state of
// agents.
func newShadows(s *state, agents *registry.Service) *shadow.Service {
	shadows := shadow.New(shadow.Options{
		Table:     store.NewTable[shadow.Record](s.Store, "state"),
		Agents:    agents,
		Publish:   s.clients.Publish,
		Retained:  s.clients.Retained,
		Authorize: s.authorizer.Authorize,
		Grants:    s.credentials,
		Refused: func(who protocol.Party, agent protocol.AgentID, why *protocol.Error) {
			s.promised.witness.value().Unreported(who, agent, why)
		},
		Topics: s.topics,
		Log:    s.log,
	})
	s.promised.shadows.keep(shadows)
	return shadows
}

// openReports takes the reports of agents about their state.
func openReports(s *state, d *domains, server *broker.Broker) {
	server.Handle(s.topics.AgentState("+", string(shadow.Reported)), func(p *broker.Publication) {
		agent, ok := s.topics.StateOf(p.Topic)
		if !ok {
			return
		}
		settle := p.Take()
		d.shadows.Take(p.Client.Principal(), agent, p.Payload, func(why *protocol.Error) { settle(verdictOn(why)) })
	})
}

// Reason codes of MQTT 5 for reports that are not taken.
const (
	implementationSpecific = 0x83
	notAuthorized          = 0x87
	quotaExceeded          = 0x97
	payloadInvalid         = 0x99
)

// verdictOn is the answer to the publisher of a report.
func verdictOn(why *protocol.Error) broker.Verdict {
	if why == nil {
		return broker.Verdict{}
	}
	v := broker.Verdict{Reason: implementationSpecific, Text: why.Message}
	switch why.Code {
	case protocol.StoreUnavailable, protocol.ShuttingDown:
		v.Unstored = true
	case protocol.InvalidParameter, protocol.MalformedEnvelope, protocol.PayloadTooLarge:
		v.Reason = payloadInvalid
	case protocol.PermissionDenied:
		v.Reason = notAuthorized
	case protocol.LimitReached, protocol.Busy, protocol.RateLimited:
		v.Reason = quotaExceeded
	}
	return v
}
