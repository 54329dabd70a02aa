package cluster

import "time"

// A machine is the state machine of a node: it decides on the writes to its own record
// and to those of the others. It has no clock and no stream: its inputs are events with
// the time since the start of the process, its output is the next step.
//
// A node begins as a candidate. While its id is another's, it proves to itself that the
// stream takes writes; it becomes a member when its own record is stored. A member
// renews. Either way it measures the silence of the others between two confirmed writes
// of its own in quick succession: the silence of a node is time in which the stream
// took both of these writes, and none of that node in between.
type machine struct {
	id       string
	instance string
	floor    uint64 // least epoch

	phase    phase
	epoch    uint64
	joined   uint64 // revision of the first record
	revision uint64 // of this node's own record, as far as known
	look     bool   // the record has to be read before anything is written
	fencedBy Record // the record that ended this node, none if it is gone

	sent    time.Duration // when the last confirmed write was sent
	heard   time.Duration // when it was confirmed
	proof   uint64        // its revision
	proven  bool
	horizon uint64 // revision up to which the stream was read
	peers   map[string]*peer
}

type phase int

const (
	candidate phase = iota
	member
	fenced
)

// A peer is the record of another process, and the time of its silence.
type peer struct {
	entry
	silence time.Duration
	moved   bool // it wrote since this node's last confirmed write
}

// rememberEnded is the least time for which ended nodes are remembered whose records
// expire.
const rememberEnded = 10 * time.Minute

// adoptions bounds how many others may have had the sessions of a bridge since its last
// run, where its clock was set back: each is known by the next number above the epoch of
// that run (package estate), and the next run has to come after all of them.
const adoptions = 1000

// apart is the greatest time between two confirmed writes of this node for the silence
// between them to count.
const apart = time.Second

func newMachine(id, instance string, floor uint64) *machine {
	return &machine{id: id, instance: instance, floor: floor, peers: make(map[string]*peer)}
}

// A step is the next action of a node.
type step struct {
	kind  stepKind
	after uint64 // revision that the record must have
	epoch uint64 // of the node that joins
}

type stepKind int

const (
	rest  stepKind = iota // nothing
	prove                 // store an entry that is no record
	join                  // write the first record
	renew                 // write the next
	look                  // read this node's own record
)

// next returns the step to take when a renewal is due.
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
		if m.epoch = m.floor; m.epoch <= before.record.Epoch { // the clock was set back
			m.epoch = before.record.Epoch + adoptions
		}
		return step{kind: join, after: before.revision, epoch: m.epoch}
	}
	return step{kind: prove}
}

// confirmed handles the confirmation of a write.
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

// count adds the time since the last confirmed write to the silence of the others. If
// that write is too long ago, or the stream was not yet read up to it, the count starts
// again from zero: nodes that could not be heard meanwhile get the full time again.
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
		if p.record.ended() && p.record.endedLife() > 0 && p.silence > rememberEnded {
			delete(m.peers, id)
		}
	}
}

// enter makes the node a member.
func (m *machine) enter(joined, revision uint64) {
	m.phase, m.joined, m.revision = member, joined, revision
	delete(m.peers, m.id)
}

// refused handles a conflict of revisions: an earlier write of this node was stored but
// its confirmation was lost, or another node has written the record.
func (m *machine) refused() { m.look = true }

// looked handles the record read from the stream; nil if there is none.
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

// seen handles a record of the stream.
func (m *machine) seen(e entry) {
	m.passed(e.revision)
	if e.id == m.id {
		m.own(e)
		return
	}
	m.peer(e)
}

// passed notes the revision up to which the stream was read.
func (m *machine) passed(revision uint64) { m.horizon = max(m.horizon, revision) }

// own handles a record with this node's own id.
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

// peer handles a record of another process.
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

// gone handles the removal of a peer's record from the stream.
func (m *machine) gone(id string) { delete(m.peers, id) }

func (m *machine) fence(by Record) { m.phase, m.fencedBy = fenced, by }

// silent returns the records of members that were silent for too long, to be replaced
// by verdicts. Only a member declares others dead.
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

// sure reports whether the last confirmed renewal was sent less than UnsureAfter ago:
// then no other node can have declared this one dead.
func (m *machine) sure(now time.Duration) bool {
	return m.phase == member && now-m.sent < UnsureAfter
}

// oldest reports whether no living node joined before this one. That is certain once
// the stream was read up to this node's first record: all older nodes are before it.
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
