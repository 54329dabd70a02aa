package app

import (
	"iter"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/doors/mqtt/session"
	"github.com/aibridge/aibridge/protocol"
)

// Sessions implements [session.Broker].
func (m *mqttSide) Sessions() iter.Seq[session.Info] {
	return func(yield func(session.Info) bool) {
		for _, info := range m.broker.Sessions() {
			if !yield(sessionInfo(info)) {
				return
			}
		}
	}
}

// Session implements [session.Broker].
func (m *mqttSide) Session(space protocol.SpaceID, clientID string) (session.Info, bool) {
	info, ok := m.broker.Session(broker.SessionID{Space: space, Client: clientID})
	return sessionInfo(info), ok
}

// Kick implements [session.Broker].
func (m *mqttSide) Kick(space protocol.SpaceID, clientID string, forget bool) bool {
	return m.broker.Kick(broker.SessionID{Space: space, Client: clientID}, forget)
}

func sessionInfo(b broker.SessionInfo) session.Info {
	info := session.Info{
		ClientID: b.ClientID, Principal: b.Principal, Space: b.Space, Method: b.Method, Credential: b.Credential, Connected: b.Connected, Remote: b.Remote,
		Listener: b.Listener, Version: b.Version, Expiry: b.Expiry, Expires: b.Expires,
		Subscriptions: len(b.Subscriptions), Inflight: b.Inflight, Queued: b.Queued, QueuedBytes: b.QueuedBytes,
		Outbox: b.Outbox, Will: b.Will,
	}
	for _, s := range b.Subscriptions {
		info.Filters = append(info.Filters, session.Filter(s))
	}
	return info
}
