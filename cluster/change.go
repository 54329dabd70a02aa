package cluster

import (
	"cmp"
	"reflect"
)

// update publishes a change in the state of the machine: this node's own fate, or the
// members as callers see them. The caller holds mu, as for all methods below.
func (m *Membership) update(id string) {
	switch {
	case m.machine.phase == fenced:
		by := m.machine.fencedBy
		m.fail(&Verdict{Node: Node{m.o.ID, m.machine.epoch}, By: cmp.Or(by.By, by.ID)})
	case m.machine.phase == member && m.machine.horizon >= m.machine.joined && !closed(m.entered):
		if err := m.admit(); err != nil {
			m.fail(err)
			return
		}
		close(m.entered)
	}
	if closed(m.entered) && m.machine.oldest() && !closed(m.elected) {
		close(m.elected)
	}
	m.compare(id)
}

// living is a node as the machine has it, if it lives.
func (m *Membership) living(id string) (Member, bool) {
	if id != m.o.ID {
		p := m.machine.peers[id]
		if p == nil || p.record.ended() {
			return Member{}, false
		}
		return p.record.Member, true
	}
	self := m.mine.Member.clone()
	self.Epoch, self.Joined, self.Revision = m.machine.epoch, m.machine.joined, m.machine.revision
	return self, m.machine.phase == member
}

// compare updates one node in the list of members, and reports the difference to the
// watchers.
func (m *Membership) compare(id string) {
	before, was := m.members[id]
	now, is := m.living(id)
	same := was && is && before.Epoch == now.Epoch
	if !is {
		delete(m.heard, id)
	}
	if was && !same {
		m.watching.tell(Change{m.howEnded(before.Node), before})
	}
	switch {
	case !is:
		delete(m.members, id)
		return
	case !same:
		m.watching.tell(Change{Joined, now})
	case !sameWords(before, now):
		m.watching.tell(Change{Told, now})
	}
	m.members[id] = now
}

// howEnded returns [Departed] or [Declared] for a node that has ended.
func (m *Membership) howEnded(n Node) ChangeKind {
	if p := m.machine.peers[n.ID]; p != nil && p.record.Epoch == n.Epoch && p.record.State == Left {
		return Departed
	}
	return Declared
}

// sameWords reports whether two records of a node differ in their revision only.
func sameWords(a, b Member) bool {
	a.Revision, b.Revision = 0, 0
	return reflect.DeepEqual(a, b)
}
