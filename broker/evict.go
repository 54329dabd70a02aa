package broker

// DropSubscription ends one subscription of a session, connected or kept, as
// if its client had unsubscribed: the rest of the session stays. What was
// queued by then is still delivered. It reports whether there was one.
func (b *Broker) DropSubscription(clientID, filter string) bool {
	s := b.session(clientID)
	if s == nil {
		return false
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs[filter]
	if sub == nil || s.ended {
		return false
	}
	delete(s.subs, filter)
	b.index.remove(sub)
	b.recordSession(t, s)
	if c := s.conn.Load(); c != nil {
		client := c.client
		s.events.push(func(p Presence) { p.Unsubscribed(client, filter) })
		t.tell = append(t.tell, s)
	}
	return true
}
