package sessions

import (
	"encoding/binary"
	"slices"

	"github.com/aibridge/aibridge/broker"
)

// home returns the bridge that keeps track of the holder of an id: the member whose
// hash with the id is the highest. When a member joins or ends, no ids move between the
// others.
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

// atHome handles messages about ids whose home is this bridge.
func (m *machine) atHome(from Node, msg *message) {
	key := m.secret.Key(msg.id)
	switch msg.kind {
	case msgAsk:
		before := m.enters(key, from, msg.stamp)
		m.send(from, &message{kind: msgHolder, op: msg.op, id: msg.id, node: before.holder, stamp: before.since})
	case msgRegister:
		m.registers(from, msg.id, key, msg.stamp)
	case msgLeft:
		m.leaves(key, from)
	case msgBack:
		if m.homes[key].holder == from && m.alive(msg.node) {
			m.forgetContested(key, msg.node)
			m.homes[key] = note{msg.node, msg.stamp}
		}
	}
}

// enters notes the bridge that is about to have an id, and returns the previous holder.
func (m *machine) enters(key Key, by Node, since int64) (before note) {
	m.forgetContested(key, by)
	if there, ok := m.homes[key]; ok && there.holder != by && m.alive(there.holder) {
		m.contested[key] = append(m.contested[key], there)
	}
	m.homes[key] = note{by, since}
	if all := m.contested[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return note{}
}

// forgetContested forgets that a bridge had an id before the one that has it, or is
// about to.
func (m *machine) forgetContested(key Key, by Node) {
	all := slices.DeleteFunc(m.contested[key], func(n note) bool { return n.holder == by || !m.alive(n.holder) })
	if m.contested[key] = all; len(all) == 0 {
		delete(m.contested, key)
	}
}

// leaves notes that a bridge does not have an id any more. An earlier holder that has
// not left it is the holder again.
func (m *machine) leaves(key Key, by Node) {
	m.forgetContested(key, by)
	if m.homes[key].holder != by {
		return
	}
	all := m.contested[key]
	if len(all) == 0 {
		delete(m.homes, key)
		return
	}
	m.homes[key] = all[len(all)-1]
	m.forgetContested(key, m.homes[key].holder)
}

// mourn drops the ids of bridges that have ended. An id that one of them was about to
// have goes back to the previous holder.
func (m *machine) mourn() {
	for key := range m.contested {
		m.forgetContested(key, Node{})
	}
	for key, n := range m.homes {
		if !m.alive(n.holder) {
			m.leaves(key, n.holder)
		}
	}
}

// registers notes a bridge's report that it has an id. Of several such bridges, the
// latest is the holder.
func (m *machine) registers(by Node, id broker.SessionID, key Key, since int64) {
	latest := note{by, since}
	others := slices.Clone(m.contested[key])
	if there, ok := m.homes[key]; ok {
		others = append(others, there)
	}
	others = slices.DeleteFunc(others, func(n note) bool { return n.holder == by || !m.alive(n.holder) })
	for _, n := range others {
		if n.since > latest.since || n.since == latest.since && n.holder.ID > latest.holder.ID {
			latest = n
		}
	}
	delete(m.contested, key)
	m.homes[key] = latest
	for _, n := range append(others, note{by, since}) {
		if n.holder != latest.holder {
			m.contested[key] = append(m.contested[key], n)
			m.say(n.holder, &message{kind: msgLost, id: id, stamp: latest.since})
		}
	}
}

// register reports to the home of an id that this bridge has it.
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

// registerAll registers all ids of the bridge with their homes.
func (m *machine) registerAll() {
	m.local.All(func(id broker.SessionID, since int64) bool {
		m.register(id, m.secret.Key(id), since)
		return true
	})
}

// moveHomes registers the ids whose home has changed with the members.
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
