package app

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/quota"
)

// A presence is what is kept of a client while it is connected.
type presence struct {
	memory security.Memory
	as     *protocol.Principal // whose connection it counts as, until it ends
}

// reasonQuota is quota exceeded (MQTT 5 §3.14.2.1).
const reasonQuota = 0x97

// room says whether a principal may have a connection for a client id: for one
// that it has, which the new connection takes the place of, it may.
func (m *mqttSide) room(clientID string, who *protocol.Principal) error {
	if owner, ok := m.owner(who.Home(), clientID); ok && owner.Same(who) {
		return nil
	}
	if err := m.quotas.MayConnect(who); err != nil {
		return err
	}
	return nil
}

// entered counts a connection. One too many, of several that came at once, is
// ended.
func (m *mqttSide) entered(c *broker.Client) {
	p := &presence{as: c.Principal()}
	m.memories.Store(c, p)
	if err := m.quotas.Connect(p.as); err != nil {
		go m.end(c, reasonQuota, err.Message, endAttempts)
	}
}

// parted counts a connection no longer.
func (m *mqttSide) parted(c *broker.Client) {
	if p, ok := m.memories.LoadAndDelete(c); ok {
		m.quotas.Disconnect(p.(*presence).as)
	}
}

// quota is what the broker asks; nil if nobody is limited.
func (m *mqttSide) quota() broker.Quota {
	if m.quotas.None() {
		return nil
	}
	return mqttQuota{m}
}

// An mqttQuota tells the broker what clients may take.
type mqttQuota struct{ side *mqttSide }

// Publish implements [broker.Quota]. Commands are the router's to count, which
// answers them.
func (q mqttQuota) Publish(c *broker.Client, topic string, size int) broker.Verdict {
	if topic == q.side.requests {
		return broker.Verdict{}
	}
	if text := q.side.quotas.Message(c.Principal(), size); text != "" {
		return broker.Verdict{Reason: reasonQuota, Text: text}
	}
	return broker.Verdict{}
}

// Holdings implements [broker.Quota].
func (q mqttQuota) Holdings(who *protocol.Principal) (own, space broker.Holdings) {
	mine, all := q.side.quotas.Limits(who)
	return holdings(mine), holdings(all)
}

func holdings(l quota.Limits) broker.Holdings {
	return broker.Holdings{Sessions: l.Sessions, Retained: l.Retained, RetainedBytes: l.RetainedBytes}
}

// Refused implements [broker.Quota].
func (q mqttQuota) Refused(what broker.Holding, space bool) {
	switch what {
	case broker.Sessions:
		q.side.quotas.Refused(quota.Sessions, space)
	case broker.Retained:
		q.side.quotas.Refused(quota.Retained, space)
	case broker.RetainedBytes:
		q.side.quotas.Refused(quota.RetainedBytes, space)
	}
}
