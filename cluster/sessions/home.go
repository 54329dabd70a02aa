package sessions

import (
	"encoding/binary"

	"github.com/aibridge/aibridge/broker"
)

// home is the bridge that knows which of some has an id: the one whose hash with
// the id is the highest. If one comes or goes, no other's ids move among those
// that stay.
func home(key Key, members []Node) Node {
	var best Node
	var most uint64
	for _, n := range members {
		if w := weight(key, n.ID); best.ID == "" || w > most || w == most && n.ID > best.ID {
			best, most = n, w
		}
	}
	return best
}

func weight(key Key, id string) uint64 {
	h := binary.LittleEndian.Uint64(key[:]) ^ 14695981039346656037
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	h ^= h >> 32
	return h
}

// atHome answers for the ids whose home this bridge is.
func (m *machine) atHome(from Node, msg *message) {
	key := m.secret.Key(msg.id)
	switch msg.kind {
	case msgAsk:
		before := m.enters(key, from, msg.stamp)
		m.send(from, &message{kind: msgHolder, op: msg.op, id: msg.id, node: before.holder, stamp: before.since})
	case msgRegister:
		m.registers(from, msg.id, key, msg.stamp)
	case msgLeft:
		if m.homes[key].holder == from {
			delete(m.homes, key)
		}
		if m.contested[key].holder == from {
			delete(m.contested, key)
		}
	case msgBack:
		if m.homes[key].holder == from && m.alive(msg.node) {
			m.homes[key] = note{msg.node, msg.stamp}
		}
	}
}

// enters notes who is about to have an id, and says who had it.
func (m *machine) enters(key Key, by Node, since int64) (before note) {
	before = m.homes[key]
	m.homes[key] = note{by, since}
	if before.holder == by || !m.alive(before.holder) {
		return note{}
	}
	m.contested[key] = before
	return before
}

// mourn forgets what bridges had that are no more. What one of them was about to
// have, the one before still has.
func (m *machine) mourn() {
	for key, n := range m.contested {
		if !m.alive(n.holder) {
			delete(m.contested, key)
		}
	}
	for key, n := range m.homes {
		if m.alive(n.holder) {
			continue
		}
		if before, ok := m.contested[key]; ok {
			m.homes[key] = before
			delete(m.contested, key)
		} else {
			delete(m.homes, key)
		}
	}
}

// registers notes who has an id, as it says itself. If another says so too, the
// later one stays.
func (m *machine) registers(by Node, id broker.SessionID, key Key, since int64) {
	there, ok := m.homes[key]
	if !ok || there.holder == by || !m.alive(there.holder) {
		m.homes[key] = note{by, since}
		return
	}
	if since > there.since || since == there.since && by.ID > there.holder.ID {
		m.homes[key] = note{by, since}
		m.say(there.holder, &message{kind: msgLost, id: id, stamp: since})
		return
	}
	m.say(by, &message{kind: msgLost, id: id, stamp: there.since})
}

// register has the home of an id know that this bridge has it.
func (m *machine) register(id broker.SessionID, key Key, since int64) {
	m.say(home(key, m.members()), &message{kind: msgRegister, id: id, stamp: since})
}

func (m *machine) leaveHome(id broker.SessionID, key Key) {
	m.say(home(key, m.members()), &message{kind: msgLeft, id: id})
}

// say sends a message to a bridge, which may be this one.
func (m *machine) say(to Node, msg *message) {
	if to == m.self {
		m.take(to, msg)
		return
	}
	m.send(to, msg)
}

// registerAll has the homes of all that the bridge has know of it.
func (m *machine) registerAll() {
	m.local.All(func(id broker.SessionID, since int64) bool {
		m.register(id, m.secret.Key(id), since)
		return true
	})
}

// moveHomes tells the homes of ids that are another's since the members changed.
func (m *machine) moveHomes(before []Node) {
	now := m.members()
	type moved struct {
		id    broker.SessionID
		key   Key
		since int64
	}
	var all []moved
	m.local.All(func(id broker.SessionID, since int64) bool {
		if key := m.secret.Key(id); home(key, before) != home(key, now) {
			all = append(all, moved{id, key, since})
		}
		return true
	})
	for i := range all {
		m.register(all[i].id, all[i].key, all[i].since)
	}
}
