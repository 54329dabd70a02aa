package broker

import "github.com/aibridge/aibridge/protocol"

// A Relay connects the broker with the other nodes of a cluster. Calls are
// made on the message path and must not block; messages are valid until the
// call returns.
type Relay interface {
	// Publish offers a message that was published here to the other nodes;
	// they hand it to their [Broker.Relayed].
	Publish(to protocol.Recipients, m *protocol.Message)
	// Retained tells that a topic's retained message changed here; one
	// without payload is gone.
	Retained(to protocol.Recipients, m *protocol.Message)
	// Claim takes a session for this node, so that others
	// give theirs up by [Broker.Yield].
	Claim(id SessionID)
}

// relay offers the turn's message to the other nodes.
func (t *turn) relay(r Relay) {
	var m protocol.Message
	t.show(&m)
	r.Publish(t.msg.to, &m)
	if m.Retain {
		r.Retained(t.msg.to, &m)
	}
}

// Relayed routes a message that another node's client published to the
// subscribers of this node, and keeps it if it is retained. It returns how
// many connected sessions it was written to or queued for.
func (b *Broker) Relayed(to protocol.Recipients, m protocol.Message) (receivers int) {
	t := b.getTurn().begin()
	t.own = true
	t.loadOwn(to, &m)
	r := t.routeOf(m.Topic)
	t.msg.topic = r.topic
	if m.Retain {
		t.retain(retainLimits{bytes: b.options.Limits.RetainedBytes})
	}
	_, receivers = t.deliver(r)
	b.flusher.take(t)
	b.putTurn(t)
	return receivers
}

// Yield gives a session up to another node that claimed it: its client is
// disconnected and what is kept of it ends here.
func (b *Broker) Yield(id SessionID) {
	b.Disconnect(id, byte(0x8E), "")
	s := b.session(id)
	if s == nil {
		return
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.claim.Lock() // a client may be about to have it
	defer s.claim.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() == nil {
		t.endLocked(s)
	}
}
