package broker

import (
	"cmp"
	"slices"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A SessionID names a session: what clients call themselves is told apart in
// their space only. It is comparable.
type SessionID struct {
	Space  protocol.SpaceID // of the principal it belongs to, never ""
	Client string           // id of the client
}

// A SessionInfo describes one session for operators.
type SessionInfo struct {
	ClientID      string
	Principal     string
	Space         protocol.SpaceID // of the principal, never ""
	Method        string           // how it authenticated last
	Credential    string           // with what: the id of a key, a certificate or a token
	Connected     bool
	Since         time.Time // of the connection, while connected
	Remote        string    // while connected
	Listener      string
	Version       byte
	Expiry        time.Duration // how long it is kept without a connection
	Expires       time.Time     // when it ends, while it is not connected
	Subscriptions []SubscriptionInfo
	Inflight      int       // sent and not acknowledged
	Queued        int       // QoS 1 and 2 messages that wait
	Dropped       uint64    // messages that found no room, since the broker started; of QoS 0 by this connection
	Late          time.Time // since when messages wait for a connected client; zero if it keeps up
	QueuedBytes   int
	Outbox        int    // bytes the socket has not taken
	Will          string // topic of the will, "" without one
}

// A SubscriptionInfo is one filter of a session.
type SubscriptionInfo struct {
	Filter string
	QoS    byte
	Shared bool
}

// Sessions lists all sessions, connected or kept, by client id and space; with
// those that were adopted.
func (b *Broker) Sessions() []SessionInfo {
	var infos []SessionInfo
	for _, b := range b.family() {
		all := b.allSessions()
		infos = slices.Grow(infos, len(all))
		for _, s := range all {
			if i, ok := b.info(s); ok {
				infos = append(infos, i)
			}
		}
	}
	slices.SortFunc(infos, func(x, y SessionInfo) int {
		return cmp.Or(cmp.Compare(x.ClientID, y.ClientID), cmp.Compare(x.Space, y.Space))
	})
	return infos
}

// Session describes a session.
func (b *Broker) Session(id SessionID) (SessionInfo, bool) {
	for _, b := range b.family() {
		if s := b.session(id); s != nil {
			if i, ok := b.info(s); ok {
				return i, true
			}
		}
	}
	return SessionInfo{}, false
}

// Kick disconnects a client by administrative action and, with forget, ends
// its session too. It reports whether there was a session.
func (b *Broker) Kick(id SessionID, forget bool) (found bool) {
	for _, b := range b.family() {
		found = b.kick(id, forget) || found
	}
	return found
}

func (b *Broker) kick(id SessionID, forget bool) (found bool) {
	s := b.session(id)
	if here, _ := b.Here(id); s == nil || here == Absent {
		return false
	}
	b.Disconnect(id, byte(packet.AdministrativeAction), "")
	if forget {
		t := b.getTurn().begin()
		defer b.putTurn(t)
		s.claim.Lock() // a client may be about to have it
		defer s.claim.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conn.Load() == nil && s.moving == staying {
			t.endLocked(s)
		}
	}
	return true
}

// info describes a session, if it is this bridge's.
func (b *Broker) info(s *session) (i SessionInfo, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standing() == Absent {
		return i, false
	}
	i = SessionInfo{
		ClientID: s.id, Principal: s.principal.ID, Space: s.owner.Space,
		Method: s.principal.Method, Credential: s.principal.Credential, Expiry: time.Duration(seconds(s.expiry)),
		Inflight: s.window.used, Queued: s.queue.len(), QueuedBytes: s.queue.bytes, Dropped: s.dropped,
	}
	if s.client != nil {
		i.Listener, i.Version = s.client.Listener, s.client.Version
	}
	if c := s.conn.Load(); c != nil {
		i.Connected, i.Since = true, b.clock.Wall(c.accepted)
		if c.remote != nil {
			i.Remote = c.remote.String()
		}
		c.mu.Lock()
		i.Outbox = c.out.size
		i.Dropped += c.dropped
		c.mu.Unlock()
		if since := c.late.since.Load(); since != 0 {
			i.Late = b.clock.Wall(since)
		}
	} else if s.expires != 0 {
		i.Expires = b.clock.Wall(s.expires)
	}
	if s.will != nil {
		i.Will = s.will.msg.topic
	}
	for sub := range s.subs.all() {
		i.Subscriptions = append(i.Subscriptions, SubscriptionInfo{sub.filter, sub.qos, topic.IsShared(sub.filter)})
	}
	slices.SortFunc(i.Subscriptions, func(x, y SubscriptionInfo) int { return cmp.Compare(x.Filter, y.Filter) })
	return i, true
}

// ForgetReceived forgets the identifiers of the QoS 2 messages that a client has
// begun to send and not ended: for a client that relays the packets of another one,
// which has forgotten them and begins anew.
func (b *Broker) ForgetReceived(id SessionID) {
	b.turnOf(id, func(t *turn, s *session) {
		for used, here := range s.inbound {
			delete(s.inbound, used)
			delete(s.accepting, used)
			if here {
				s.receiving.Add(-1)
			}
			if s.keeps() {
				b.recordInbound(t, s, used, false)
			}
		}
	})
}
