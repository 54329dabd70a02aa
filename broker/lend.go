package broker

import (
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A Return is what became of a message lent.
type Return byte

// They are told once for each message lent.
const (
	Accepted  Return = iota // the client has acknowledged it, or it was sent with QoS 0
	Rejected                // the client has acknowledged it by a reason code that is a failure
	Abandoned               // the connection ended before
)

// Borrowers is the size of the largest packet that a connected client of a space takes
// which has subscribed to one of the filters and takes a message lent: it has room, and
// fewer than most lent ones. It is 0 if there is none.
func (b *Broker) Borrowers(space protocol.SpaceID, filters []string, most int) (largest int) {
	for _, sub := range b.index.subscribed(space, filters) {
		s := sub.session
		s.mu.Lock()
		if c := s.conn.Load(); s.borrows(c, most) {
			largest = max(largest, c.maxPacket)
		}
		s.mu.Unlock()
	}
	return largest
}

// Subscribers is the number of connected clients of a space that have subscribed to one
// of the filters, each counted once.
func (b *Broker) Subscribers(space protocol.SpaceID, filters []string) int {
	counted := make(map[*session]bool)
	for _, sub := range b.index.subscribed(space, filters) {
		if sub.session.conn.Load() != nil {
			counted[sub.session] = true
		}
	}
	return len(counted)
}

// Lend sends a message to one connected client of a space that has subscribed to one of
// the filters, whatever the topic of the message is: to the one with the fewest lent
// messages, if that is less than most. It is of QoS 1, but for subscriptions of QoS 0,
// and not kept: done is called once, when it is known what became of it. Locks of the
// broker are held then: done must not block, and not call the broker. If nobody takes
// the message, Lend returns false, and done is not called.
func (b *Broker) Lend(space protocol.SpaceID, filters []string, most int, m protocol.Message, done func(Return)) bool {
	t := b.getTurn().begin()
	defer b.putTurn(t)
	to := protocol.Everybody(space)
	t.loadOwn(&to, &m)
	subs := b.index.subscribed(space, filters)
	for len(subs) > 0 {
		best, fewest := 0, most
		start := int(b.shareTurns.Add(1) % uint32(len(subs)))
		for i := range subs {
			at := (start + i) % len(subs)
			if n := subs[at].session.borrowed(); n < fewest {
				best, fewest = at, n
			}
		}
		if fewest < most && t.lendTo(subs[best], most, done) {
			return true
		}
		subs[best] = subs[len(subs)-1]
		subs = subs[:len(subs)-1]
	}
	return false
}

// subscribed lists the subscriptions of a space to filters, but for shared ones.
func (x *index) subscribed(space protocol.SpaceID, filters []string) (subs []*subscription) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, filter := range filters {
		in, ok := x.filters.Get(filter)
		if !ok {
			continue
		}
		for _, sub := range in.subs {
			if sub.session.owner.Space == space {
				subs = append(subs, sub)
			}
		}
	}
	return subs
}

// borrows reports whether a session, whose mu is held, takes a message lent.
func (s *session) borrows(c *conn, most int) bool {
	return c != nil && !s.ended && s.moving == staying && len(s.lent) < most &&
		s.queue.len() == 0 && s.window.unsent == 0 && s.credit > 0 && s.window.used < 65535
}

// borrowed counts the messages that a session was lent.
func (s *session) borrowed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lent)
}

// lendTo sends the turn's message to a session.
func (t *turn) lendTo(sub *subscription, most int, done func(Return)) bool {
	var ids []uint32
	if sub.id != 0 {
		ids = []uint32{sub.id}
	}
	s := sub.session
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conn.Load()
	if !s.borrows(c, most) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.out.size > t.b.options.Limits.OutboxBytes {
		return false
	}
	f := frame{version: c.version, ids: ids}
	if sub.qos == 0 {
		if !c.encode(&f, &t.msg, t.now) {
			return false
		}
		t.count.sent[0]++
		t.touch(c)
		done(Accepted)
		return true
	}
	id, slot := s.window.add(&pending{qos: 1}, awaitPuback)
	f.qos, f.id = 1, id
	if !c.encode(&f, &t.msg, t.now) { // its time is over, or it is too large for the client
		s.window.remove(id)
		return false
	}
	slot.sent, slot.counted = true, true
	s.credit--
	t.count.sent[1]++
	t.touch(c)
	if s.lent == nil {
		s.lent = make(map[uint16]func(Return))
	}
	s.lent[id] = done
	return true
}

// giveBackLent ends what a session, whose mu is held, was lent: its connection ended.
func (s *session) giveBackLent() {
	for id, done := range s.lent {
		s.window.remove(id)
		done(Abandoned)
	}
	s.lent = nil
}

// repaid ends a lent message that the client has acknowledged, if it is one.
func (s *session) repaid(id uint16, reason packet.Reason) {
	done := s.lent[id]
	if done == nil {
		return
	}
	delete(s.lent, id)
	if reason.Failed() {
		done(Rejected)
	} else {
		done(Accepted)
	}
}

// Hold has the acknowledgement of a publication of QoS 1 and 2 wait until settle is
// called, once and from anywhere, and tells its verdict if that is a failure. Other than
// with [Publication.Take], it is delivered.
func (p *Publication) Hold() (settle func(Verdict)) {
	return p.settler()
}
