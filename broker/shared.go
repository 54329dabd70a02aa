package broker

// deliverShared sends the turn's message to one member of a group: in turns,
// those first that are connected and keep up [MQTT-4.8.2-4]. It reports
// whether the chosen one is connected.
func (t *turn) deliverShared(g *group, members []*subscription) bool {
	if len(members) == 0 {
		return false
	}
	start := int(g.next.Add(1) % uint32(len(members)))
	var second, third *subscription // connected but behind; away
	for i := range members {
		m := members[(start+i)%len(members)]
		switch {
		case !m.session.hears(&t.msg):
		case m.session.conn.Load() == nil:
			if third == nil {
				third = m
			}
		case m.session.behind.Load():
			if second == nil {
				second = m
			}
		default:
			if t.deliverMember(m) {
				return true
			}
		}
	}
	if second != nil && t.deliverMember(second) {
		return true
	}
	return third != nil && t.deliverMember(third)
}

func (t *turn) deliverMember(m *subscription) bool {
	var ids []uint32
	if m.id != 0 {
		ids = []uint32{m.id}
	}
	retain := t.msg.retain && m.retainAs
	if qos := min(m.qos, t.msg.qos); qos > 0 {
		return t.owe12(m.session, pending{ids: ids, group: m.group, qos: qos, retain: retain})
	}
	return t.send(m.session, retain, ids)
}

// redeliver offers a message that a session left behind to the other members
// of its group.
func (t *turn) redeliver(p pending) {
	t.use(p.msg)
	t.msg.qos = max(t.msg.qos, p.qos)
	for _, g := range t.route([]byte(p.msg.topic)).groups {
		if g == p.group {
			t.deliverShared(g, g.current(t.b))
		}
	}
}

func (g *group) current(b *Broker) []*subscription {
	b.index.mu.RLock()
	defer b.index.mu.RUnlock()
	return g.members
}
