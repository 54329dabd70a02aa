package mqtt

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/quota"
)

// A presence is the state of a connected client.
type presence struct {
	memory security.DecisionCache
	as     *protocol.Principal // whose connection it counts as, until it ends
}

// room says whether a principal may have a connection for a client id: for one
// that it has, which the new connection takes the place of, it may.
func (s *server) room(clientID string, who *protocol.Principal) error {
	if owner, ok := s.Owner(who.Home(), clientID); ok && owner.Same(who) {
		return nil
	}
	if err := s.Quotas.MayConnect(who); err != nil {
		return err
	}
	return nil
}

// entered counts a connection. One too many, of several that came at once, is
// ended.
func (s *server) entered(c *broker.Client) {
	p := &presence{as: c.Principal()}
	c.Presence.Store(p)
	if err := s.Quotas.Connect(p.as); err != nil {
		go s.end(c, reasonQuota, err.Message, endAttempts)
	}
}

// parted counts a connection no longer.
func (s *server) parted(c *broker.Client) {
	if p, _ := c.Presence.Swap((*presence)(nil)).(*presence); p != nil {
		s.Quotas.Disconnect(p.as)
	}
}

// presenceOf is the state of a client, nil if it is not connected.
func presenceOf(c *broker.Client) *presence {
	p, _ := c.Presence.Load().(*presence)
	return p
}

// quota answers the broker; nil if nobody is limited.
func (s *server) quota() broker.Quota {
	if s.Quotas.None() {
		return nil
	}
	return clientQuota{s}
}

// A clientQuota tells the broker what clients may take.
type clientQuota struct{ server *server }

// Publish implements [broker.Quota]. Commands are the router's to count, which
// answers them.
func (q clientQuota) Publish(c *broker.Client, topic string, size int) broker.Verdict {
	if topic == q.server.requests {
		return broker.Verdict{}
	}
	if text := q.server.Quotas.Message(c.Principal(), size); text != "" {
		return broker.Verdict{Reason: reasonQuota, Text: text}
	}
	return broker.Verdict{}
}

// Holdings implements [broker.Quota].
func (q clientQuota) Holdings(who *protocol.Principal) (own, space broker.Holdings) {
	mine, all := q.server.Quotas.Limits(who)
	return holdings(mine), holdings(all)
}

func holdings(l quota.Limits) broker.Holdings {
	return broker.Holdings{Sessions: l.Sessions, Retained: l.Retained, RetainedBytes: l.RetainedBytes}
}

// Holds returns the data that the broker keeps for a party, or for all of its space if
// it has no id.
func (c *Clients) Holds(p protocol.Party) quota.Holding {
	s := c.server.Load()
	if s == nil {
		return quota.Holding{}
	}
	h := s.broker.Holds(p)
	return quota.Holding{Sessions: h.Sessions, Retained: h.Retained, RetainedBytes: h.RetainedBytes}
}

// Refused implements [broker.Quota].
func (q clientQuota) Refused(what broker.Holding, space bool) {
	switch what {
	case broker.Sessions:
		q.server.Quotas.Refused(quota.Sessions, space)
	case broker.Retained:
		q.server.Quotas.Refused(quota.Retained, space)
	case broker.RetainedBytes:
		q.server.Quotas.Refused(quota.RetainedBytes, space)
	}
}
