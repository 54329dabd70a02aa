package mqtt

import (
	"iter"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/doors/mqtt/session"
	"github.com/aibridge/aibridge/protocol"
)

// Sessions implements [session.Broker].
func (c *Clients) Sessions() iter.Seq[session.Info] {
	return func(yield func(session.Info) bool) {
		s := c.server.Load()
		if s == nil {
			return
		}
		for _, info := range s.broker.Sessions() {
			if !yield(sessionInfo(info)) {
				return
			}
		}
	}
}

// Session implements [session.Broker].
func (c *Clients) Session(space protocol.SpaceID, clientID string) (session.Info, bool) {
	s := c.server.Load()
	if s == nil {
		return session.Info{}, false
	}
	info, ok := s.broker.Session(broker.SessionID{Space: space, Client: clientID})
	return sessionInfo(info), ok
}

// Kick implements [session.Broker].
func (c *Clients) Kick(space protocol.SpaceID, clientID string, forget bool) bool {
	s := c.server.Load()
	return s != nil && s.broker.Kick(broker.SessionID{Space: space, Client: clientID}, forget)
}

// StartTrace implements [session.Broker].
func (c *Clients) StartTrace(space protocol.SpaceID, clientID string, ends time.Time) (found, room bool) {
	s := c.server.Load()
	if s == nil {
		return false, false
	}
	return s.broker.StartTrace(broker.SessionID{Space: space, Client: clientID}, ends)
}

// Trace implements [session.Broker].
func (c *Clients) Trace(space protocol.SpaceID, clientID string, after uint64, limit int) (session.Trace, bool) {
	s := c.server.Load()
	if s == nil {
		return session.Trace{}, false
	}
	tr, ok := s.broker.Trace(broker.SessionID{Space: space, Client: clientID}, after, limit)
	shown := session.Trace{Ends: tr.Ends, Missed: tr.Missed}
	for _, h := range tr.Lines {
		line := session.Headline{
			N: h.N, At: h.At.UnixMilli(), From: session.FromBridge, Type: h.Type, Size: h.Size, PacketID: h.PacketID,
			Topic: h.Topic, QoS: h.QoS, Retain: h.Retain, Dup: h.Dup, Filters: h.Filters, Reasons: h.Reasons,
		}
		if h.Inbound {
			line.From = session.FromClient
		}
		shown.Lines = append(shown.Lines, line)
	}
	return shown, ok
}

// StopTrace implements [session.Broker].
func (c *Clients) StopTrace(space protocol.SpaceID, clientID string) bool {
	s := c.server.Load()
	return s != nil && s.broker.StopTrace(broker.SessionID{Space: space, Client: clientID})
}

func sessionInfo(b broker.SessionInfo) session.Info {
	info := session.Info{
		ClientID: b.ClientID, Principal: b.Principal, Space: b.Space, Method: b.Method, Credential: b.Credential, Connected: b.Connected, Since: b.Since, Remote: b.Remote,
		Listener: b.Listener, Version: b.Version, Expiry: b.Expiry, Expires: b.Expires,
		Subscriptions: len(b.Subscriptions), Inflight: b.Inflight, Queued: b.Queued, QueuedBytes: b.QueuedBytes,
		Outbox: b.Outbox, Dropped: b.Dropped, Late: b.Late, Will: b.Will,
	}
	for _, s := range b.Subscriptions {
		info.Filters = append(info.Filters, session.Filter(s))
	}
	return info
}
