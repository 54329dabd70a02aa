package broker

import "github.com/aibridge/aibridge/protocol"

// DropSubscription ends one subscription of a session, connected or kept,
// because its client lost the right to it: the rest of the session stays.
// Messages queued by it alone are not delivered any more. It reports whether
// there was one.
func (b *Broker) DropSubscription(id SessionID, filter string) bool {
	s := b.session(id)
	if s == nil {
		return false
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.revoke(s, filter) {
		return false
	}
	b.recordSession(t, s)
	if c := s.conn.Load(); c != nil {
		client := c.client
		s.events.push(func(p Presence) { p.Unsubscribed(client, filter) })
		t.tell = append(t.tell, s)
	}
	return true
}

// revoke takes a subscription from a session, whose mu is held, and with it
// what waits in its queues because of that subscription. What the client was
// sent already stays until it acknowledges.
func (t *turn) revoke(s *session, filter string) bool {
	sub := s.subs.get(filter)
	if sub == nil || s.ended {
		return false
	}
	s.subs.remove(filter)
	t.b.index.remove(sub)
	t.b.giveBack(s, filter)
	t.takeBackAll(s, func(p *pending) bool { return s.lost(p, sub) })
	return true
}

// takeBackAll takes what is lost from all that a session, whose mu is held, is
// still to be sent.
func (t *turn) takeBackAll(s *session, lost func(*pending) bool) {
	t.takeBack(s, &s.queue, lost)
	if s.zeros != nil {
		t.takeBack(s, s.zeros, lost)
	}
	for id := s.window.first; id != 0; {
		slot := &s.window.slots[id-1]
		next := slot.next
		if !slot.sent && !slot.dup && slot.state != awaitPubcomp && lost(&slot.pending) {
			t.giveUp(s, &slot.pending)
			s.window.remove(id)
			if s.window.used == 0 {
				break
			}
		}
		id = next
	}
}

// become makes somebody the session's principal, whose mu is held: its owner with
// another credential. If that does not hear all spaces any more, what waits of
// other spaces is not sent.
func (t *turn) become(s *session, who *protocol.Principal) {
	heardAll := s.every.Load()
	s.is(who)
	t.b.index.hearsEvery(s, s.every.Load())
	if heardAll && !s.every.Load() {
		t.takeBackAll(s, func(p *pending) bool { return p.msg != nil && !s.hears(p.msg) })
	}
}

// lost reports whether a session gets a message by a subscription that it lost
// and by none that it has.
func (s *session) lost(p *pending, by *subscription) bool {
	if p.msg == nil {
		return false
	}
	if p.group != nil {
		return p.group == by.group
	}
	if by.group != nil || !by.covers(p.msg) {
		return false
	}
	for sub := range s.subs.all() {
		if sub.group == nil && sub.covers(p.msg) {
			return false
		}
	}
	return true
}

// covers reports whether a message that the session hears is for the subscription.
func (sub *subscription) covers(m *message) bool {
	return protocol.Match(sub.interest.filter, m.topic) && sub.wants(m)
}

// takeBack takes lost messages out of a queue.
func (t *turn) takeBack(s *session, q *fifo, lost func(*pending) bool) {
	var left fifo
	for i := q.from; i < len(q.items); i++ {
		p := &q.items[i]
		if lost(p) {
			t.giveUp(s, p)
			continue
		}
		left.push(*p)
	}
	*q = left
}

// giveUp is done with a message that is not delivered. One of a shared
// subscription goes to another member.
func (t *turn) giveUp(s *session, p *pending) {
	t.count.dropped++
	if p.group != nil {
		t.b.timers.redeliver(*p)
	}
	t.b.recordDone(t, s, p.msg)
}
