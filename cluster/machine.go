package cluster

import "time"

// A machine decides what a node does about its record and about those of the
// others. It knows no clock and no stream: it is told what happens, with the time
// since the start of the process, and says what to do next.
//
// A node begins as a candidate. While its id is another's, it proves to itself
// that the stream takes writes; it becomes a member when its own record is
// stored. A member renews. Either way it counts the silence of the others between
// its own writes that were confirmed shortly after one another: that the stream
// took mine twice, and nothing of theirs in between, is all the silence there is.
type machine struct {
	id       string
	instance string
	floor    uint64 // no epoch is below

	phase    phase
	epoch    uint64
	joined   uint64 // revision of the first record
	revision uint64 // of the last record of one's own, as far as known
	look     bool   // the record has to be read before anything is written
	fencedBy Record // the record that ended this node, none if it is gone

	sent    time.Duration // when the write was sent that was confirmed last
	heard   time.Duration // when it was confirmed
	proof   uint64        // its revision
	proven  bool
	horizon uint64 // revision of what was seen last of the stream
	peers   map[string]*peer
}

type phase int

const (
	candidate phase = iota
	member
	fenced
)

// A peer is a record of another process, and how long that was silent.
type peer struct {
	entry
	silence time.Duration
	moved   bool // it was heard since one's own last confirmed write
}

// rememberEnded is the time that those that have ended are remembered, at least.
const rememberEnded = 10 * time.Minute

// apart is the time that two confirmed writes of one's own may be apart for the
// silence between them to count.
const apart = time.Second

func newMachine(id, instance string, floor uint64) *machine {
	return &machine{id: id, instance: instance, floor: floor, peers: make(map[string]*peer)}
}

// A step is what to do next.
type step struct {
	kind  stepKind
	after uint64 // revision that the record must have
	epoch uint64 // to join with
}

type stepKind int

const (
	rest  stepKind = iota // nothing
	prove                 // store something that is no record
	join                  // write the first record
	renew                 // write the next
	look                  // read one's own record
)

// next is the step to take when the time for a renewal has come.
func (m *machine) next() step {
	switch {
	case m.phase == fenced:
		return step{kind: rest}
	case m.look:
		return step{kind: look}
	case m.phase == member:
		return step{kind: renew, after: m.revision}
	}
	before := m.peers[m.id]
	switch {
	case before == nil:
		m.epoch = max(m.floor, 1)
		return step{kind: join, epoch: m.epoch}
	case before.record.ended() || before.silence > SilentAfter:
		m.epoch = max(m.floor, before.record.Epoch+1)
		return step{kind: join, after: before.revision, epoch: m.epoch}
	}
	return step{kind: prove}
}

// confirmed is told that a step which wrote something was stored.
func (m *machine) confirmed(s step, sent, now time.Duration, revision uint64) {
	if m.phase == fenced {
		return
	}
	m.count(now)
	m.sent, m.heard, m.proof, m.proven = sent, now, revision, true
	switch s.kind {
	case join:
		m.enter(revision, revision)
	case renew:
		m.revision = max(m.revision, revision)
	}
}

// count adds up the silence of the others since the last confirmed write. If that
// is long ago, or what the stream had then was not yet read, it begins anew: who
// could not be heard meanwhile has its time again.
func (m *machine) count(now time.Duration) {
	gap := now - m.heard
	counts := m.proven && gap <= apart && m.horizon >= m.proof
	for id, p := range m.peers {
		switch {
		case p.moved || !counts:
			p.moved, p.silence = false, 0
		default:
			p.silence += gap
		}
		if p.record.ended() && p.silence > rememberEnded {
			delete(m.peers, id)
		}
	}
}

// enter has the node be a member.
func (m *machine) enter(joined, revision uint64) {
	m.phase, m.joined, m.revision = member, joined, revision
	delete(m.peers, m.id)
}

// refused is told that the record is not where it was thought to be: a write of
// one's own whose confirmation was lost was stored, or it is another's.
func (m *machine) refused() { m.look = true }

// looked is told what was found; nil if there is no record.
func (m *machine) looked(found *entry) {
	m.look = false
	switch {
	case m.phase == fenced:
	case found == nil && m.phase == candidate:
		delete(m.peers, m.id)
	case found == nil:
		m.fence(Record{})
	default:
		m.own(*found)
	}
}

// seen is told a record of the stream.
func (m *machine) seen(e entry) {
	m.passed(e.revision)
	if e.id == m.id {
		m.own(e)
		return
	}
	m.peer(e)
}

// passed is told that the stream was read up to a revision.
func (m *machine) passed(revision uint64) { m.horizon = max(m.horizon, revision) }

// own takes up a record of one's own id.
func (m *machine) own(e entry) {
	mine := e.record.Instance == m.instance && !e.record.ended()
	switch {
	case m.phase == fenced:
	case m.phase == candidate && mine: // the confirmation was lost
		m.epoch = e.record.Epoch
		m.enter(e.record.Joined, e.revision)
	case m.phase == candidate:
		m.peer(e)
	case e.revision < m.revision: // an old one
	case mine:
		m.revision = e.revision
	default:
		m.fence(e.record)
	}
}

// peer takes up a record of another process.
func (m *machine) peer(e entry) {
	p := m.peers[e.id]
	if p == nil {
		p = new(peer)
		m.peers[e.id] = p
	}
	if e.revision <= p.revision {
		return
	}
	*p = peer{entry: e, moved: true}
}

// gone is told that the stream has no record of a peer, which had one.
func (m *machine) gone(id string) { delete(m.peers, id) }

func (m *machine) fence(by Record) { m.phase, m.fencedBy = fenced, by }

// silent are the records of members that were silent for too long: each is to be
// replaced by the verdict. Only a member judges.
func (m *machine) silent() []entry {
	if m.phase != member {
		return nil
	}
	var all []entry
	for _, p := range m.peers {
		if !p.record.ended() && p.silence > SilentAfter {
			all = append(all, p.entry)
		}
	}
	return all
}

// sure reports whether a renewal was confirmed that was sent not long ago: then
// nobody can have declared the node dead.
func (m *machine) sure(now time.Duration) bool {
	return m.phase == member && now-m.sent < UnsureAfter
}

// oldest reports whether no living node joined before this one. It can tell once
// it has read the stream up to its own first record: whoever is older was there
// before, and nobody who comes later is.
func (m *machine) oldest() bool {
	if m.phase != member || m.horizon < m.joined {
		return false
	}
	for _, p := range m.peers {
		if !p.record.ended() && p.record.Joined < m.joined {
			return false
		}
	}
	return true
}
