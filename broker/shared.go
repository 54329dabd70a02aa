package broker

// deliverShared sends the turn's message to one member of a group: in turns,
// those first that are connected and keep up [MQTT-4.8.2-4], then those that
// are behind, then those that are away, as far as they have room.
func (t *turn) deliverShared(g *group, members []*subscription) deliveryResult {
	if len(members) == 0 || t.declined(g) {
		return missed
	}
	start := int(g.next.Add(1) % uint32(len(members)))
	var behind, away, crowded *subscription
	for i := range members {
		m := members[(start+i)%len(members)]
		connected := m.session.conn.Load() != nil
		switch {
		case !m.session.hears(&t.msg), !connected && min(m.qos, t.msg.qos) == 0:
		case connected && !m.session.behind.Load():
			if o := t.deliverMember(m); o >= waits {
				return o
			}
		case connected && behind != nil, !connected && away != nil:
		case !t.roomFor(m.session):
			crowded = m
		case connected:
			behind = m
		default:
			away = m
		}
	}
	best := missed
	for _, m := range [...]*subscription{behind, away, crowded} {
		if m != nil && best < waits {
			best = max(best, t.deliverMember(m))
		}
	}
	return best
}

// roomFor reports whether the turn's message may be queued for a session.
func (t *turn) roomFor(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasRoom(&t.b.options.Limits, t.msg.size())
}

func (t *turn) deliverMember(m *subscription) deliveryResult {
	var ids []uint32
	if m.id != 0 {
		ids = []uint32{m.id}
	}
	retain := t.msg.retain && m.retainAs
	qos := min(m.qos, t.msg.qos)
	if qos == 0 {
		return t.send(m.session, retain, ids)
	}
	o := t.owe12(m.session, &pending{ids: ids, group: m.group, qos: qos, retain: retain})
	if o >= waits && t.known != nil {
		t.gave(m.session, m.group.id)
	}
	return o
}

func (g *group) current(b *Broker) []*subscription {
	b.index.mu.RLock()
	defer b.index.mu.RUnlock()
	return g.members
}
