package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Self is this node.
func (m *Membership) Self() Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Node{m.o.ID, m.machine.epoch}
}

// Wire is the version of what this node says to others.
func (m *Membership) Wire() int { return Wire + m.o.Newer }

// Members are the living nodes, this one too, the oldest first.
func (m *Membership) Members() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Member, 0, len(m.members))
	for _, member := range m.members {
		if member = member.clone(); m.stream != nil {
			member.Age = (m.now() - m.heard[member.ID]).Milliseconds()
		}
		all = append(all, member)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Joined, b.Joined) })
	return all
}

// An Absent is a bridge that has ended and keeps a copy of the state. It counts where
// leaders are elected until it comes back or is removed.
type Absent struct {
	ID    string `json:"id" doc:"id of the bridge"`
	State State  `json:"state" enum:"left,dead" doc:"way of its end: it has left in order, or others have declared it dead"`
	Keeps string `json:"keeps" doc:"its address in cluster.join, under which it keeps its copy"`
}

// Absent returns the bridges whose copy of the state is missing, by id. One that was
// removed, or whose place another one has taken, is not among them.
func (m *Membership) Absent() (all []Absent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.taken()
	for id, p := range m.machine.peers {
		if r := &p.record; r.ended() && r.Removed == nil && r.Keeps != "" && !slices.Contains(taken, r.Keeps) {
			all = append(all, Absent{id, r.State, r.Keeps})
		}
	}
	slices.SortFunc(all, func(a, b Absent) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Alive reports whether a node is a member. One that was declared dead, or has a
// later epoch by now, is not.
func (m *Membership) Alive(n Node) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	member, ok := m.members[n.ID]
	return ok && member.Epoch == n.Epoch
}

// Shared reports whether other bridges may be nodes beside this one.
func (m *Membership) Shared() bool { return m.stream != nil }

// Catchup waits until this node knows all members that had joined by the time of the
// call, and their records as of then: until a renewal sent after the call was stored,
// behind all of these, and read back. The renewal includes all changes that this node
// made to its own record before the call.
func (m *Membership) Catchup(ctx context.Context) error {
	if m.stream == nil {
		return nil
	}
	called := m.now()
	look := time.NewTicker(m.o.every / 10)
	defer look.Stop()
	for {
		m.hurry()
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		m.mu.Lock()
		sent, proof, horizon, over := m.machine.sent, m.machine.proof, m.machine.horizon, m.machine.phase == fenced
		m.mu.Unlock()
		if over {
			return protocol.Errorf(protocol.StoreUnavailable, "this bridge is no member of the cluster any more")
		}
		// A renewal that was under way may have been stored before the call, so only a
		// later one counts.
		if sent > called && horizon >= proof {
			return nil
		}
	}
}

// Keys returns the fingerprints of secrets in the records of the living nodes, by the
// id of the node.
func (m *Membership) Keys() map[string]map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]map[string]string{m.o.ID: maps.Clone(m.mine.Keys)}
	if m.machine == nil {
		return all
	}
	for _, p := range m.machine.peers {
		if _, lives := m.members[p.id]; lives && p.id != m.o.ID {
			all[p.id] = maps.Clone(p.record.Keys)
		}
	}
	return all
}

// Working returns the mode of the cluster: one working bridge, or all.
func (m *Membership) Working() Working { return m.o.Working }

// Elected returns a channel that is closed when this node is the oldest living one. It
// then has the tasks of exactly one bridge, and remains the oldest for its lifetime.
func (m *Membership) Elected() <-chan struct{} { return m.elected }

// Oldest reports whether this node is the oldest of the living.
func (m *Membership) Oldest() bool {
	select {
	case <-m.elected:
		return true
	default:
		return false
	}
}
