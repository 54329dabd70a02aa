package sessions

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A Local is the broker of this bridge. See the methods of [broker.Broker].
type Local interface {
	// Here returns the bridge's standing with a client id, and its time.
	Here(id broker.SessionID) (broker.Standing, int64)
	All(yield func(id broker.SessionID, since int64) bool)
	Offer(id broker.SessionID, to protocol.Party, clean bool) ([]byte, broker.OfferResult)
	Expect(id broker.SessionID, offer []byte, epoch uint32, known func()) error
	Cut(id broker.SessionID) (state []byte, settled bool)
	Take(id broker.SessionID, state []byte, stored func()) error
	AllCame(id broker.SessionID)
	Own(id broker.SessionID)
	Drop(id broker.SessionID)
	Resume(id broker.SessionID, epoch uint32)
	Supersede(id broker.SessionID)
	Quiesce()
}

// A machine is the state machine of one bridge's part in the assignment of sessions. It
// has no clock and no network: its inputs are events, one at a time, its outputs
// messages to send and records to write.
//
// The operations on a client id run one after the other; they are queued in the place
// of the id.
type machine struct {
	self   Node
	secret *Secret
	local  Local
	table  *Table
	send   func(to Node, m *message)
	later  func(func())  // calls a function after the present event, by the goroutine of the machine
	fresh  func() uint32 // the epoch of a new session: the time in Unix seconds

	position  uint64 // up to which the table has the log
	living    []Node // the other bridges
	number    uint64 // of the last operation
	places    map[Key]*place
	asking    map[uint64]*entering
	echoes    map[uint64]*echo
	homes     map[Key]note
	contested map[Key][]note     // holders of sessions that another is about to have
	early     []broker.SessionID // that ended before there was a broker to ask
	writes    writes
	behind    []*entering // which wait for a position of the log
	counts    counts
}

// counts are the events so far, for metrics.
type counts struct {
	takeovers, resumed, ended atomic.Uint64
	owned                     atomic.Int64
}

// A note is the holder of an id, as its home knows it.
type note struct {
	holder Node
	since  int64
}

// A place is a client id with operations under way.
type place struct {
	id  broker.SessionID
	key Key
	ops []operation // the first is under way
}

// An operation is a change to a client id: a client enters, a session moves away or
// ends.
type operation interface {
	start(m *machine)
	// look is called when the session has another owner, when a process of a
	// bridge begins, and when the members have changed.
	look(m *machine)
}

func newMachine(self Node, secret *Secret, local Local, send func(Node, *message)) *machine {
	return &machine{
		self: self, secret: secret, local: local, table: NewTable(), send: send,
		places: make(map[Key]*place), asking: make(map[uint64]*entering), echoes: make(map[uint64]*echo),
		homes: make(map[Key]note), contested: make(map[Key][]note),
	}
}

func (m *machine) next() uint64 {
	m.number++
	return m.number
}

// begin queues an operation behind those under way for an id.
func (m *machine) begin(id broker.SessionID, make func(*place) operation) {
	key := m.secret.Key(id)
	p := m.places[key]
	if p == nil {
		p = &place{id: id, key: key}
		m.places[key] = p
	}
	p.ops = append(p.ops, make(p))
	if len(p.ops) == 1 {
		p.ops[0].start(m)
	}
}

// end ends the operation that is under way.
func (m *machine) end(p *place) {
	if p.ops = p.ops[1:]; len(p.ops) > 0 {
		p.ops[0].start(m)
		return
	}
	delete(m.places, p.key)
	m.tidy(p.id, p.key)
}

// tidy releases an id in the log and at its home if the bridge does not have it any
// more.
func (m *machine) tidy(id broker.SessionID, key Key) {
	here, _ := m.local.Here(id)
	if here != broker.Kept && m.table.Owner(key).Bridge == m.self.ID {
		m.begin(id, func(p *place) operation { return &releasing{p} })
		return
	}
	if here == broker.Absent {
		m.leaveHome(id, key)
	}
}

// serve connects the machine with its broker, once that is loaded.
func (m *machine) serve(local Local) {
	m.local = local
	m.registerAll()
	for _, id := range m.early {
		m.left(id)
	}
	m.early = nil
}

// left handles a session that ended here, or is not kept any more.
func (m *machine) left(id broker.SessionID) {
	if m.local == nil { // the broker is being loaded, from a journal with an expired session
		m.early = append(m.early, id)
		return
	}
	key := m.secret.Key(id)
	p := m.places[key]
	if p == nil {
		m.tidy(id, key)
		return
	}
	if o, ok := p.ops[0].(*entering); ok {
		o.waited = true // its client begins anew
	}
}

// take handles a message of a living bridge.
func (m *machine) take(from Node, msg *message) {
	switch msg.kind {
	case msgAsk, msgRegister, msgLeft, msgBack:
		m.atHome(from, msg)
	case msgLost:
		m.begin(msg.id, func(p *place) operation { return &losing{p, msg.stamp} })
	case msgYield:
		m.yield(from, msg)
	case msgReady, msgAbort:
		m.toldYielding(from, msg)
	case msgEcho:
		m.local.Quiesce()
		m.send(from, &message{kind: msgEchoed, op: msg.op, id: msg.id})
	case msgEchoed:
		if o := m.echoes[msg.op]; o != nil {
			o.heard(m, from)
		}
	default:
		if o := m.asking[msg.op]; o != nil && o.from == from {
			o.answered(m, msg)
		}
	}
}

// yield has a session go to another bridge. A client that is about to enter here
// connected earlier, and has to connect again.
func (m *machine) yield(to Node, msg *message) {
	m.begin(msg.id, func(p *place) operation {
		return &yielding{p: p, to: to, number: msg.op, since: msg.stamp, party: msg.party, clean: msg.clean}
	})
	if p := m.places[m.secret.Key(msg.id)]; p != nil {
		if o, ok := p.ops[0].(*entering); ok {
			o.overtaken(m)
		}
	}
}

// toldYielding handles a message of the bridge that a session goes to.
func (m *machine) toldYielding(from Node, msg *message) {
	p := m.places[m.secret.Key(msg.id)]
	if p == nil {
		return
	}
	for i, op := range p.ops {
		o, ok := op.(*yielding)
		switch {
		case !ok || o.to != from || o.number != msg.op:
		case i == 0:
			o.told(m, msg.kind)
			return
		case msg.kind == msgAbort: // it has not begun
			p.ops = slices.Delete(slices.Clone(p.ops), i, i+1)
			return
		}
	}
}

// settled handles the news that a session that moves away can be cut.
func (m *machine) settled(id broker.SessionID) {
	if p := m.places[m.secret.Key(id)]; p != nil {
		if o, ok := p.ops[0].(*yielding); ok && o.phase == settling {
			o.cut(m)
		}
	}
}

// reconcile sets the living bridges.
func (m *machine) reconcile(living []Node) {
	before := m.members()
	m.living = slices.Clone(living)
	m.mourn()
	m.moveHomes(before)
	for _, e := range m.echoes {
		e.look(m)
	}
	m.lookAll()
}

// members are all bridges, this one too.
func (m *machine) members() []Node { return append(slices.Clone(m.living), m.self) }

func (m *machine) alive(n Node) bool { return n == m.self || slices.Contains(m.living, n) }

// lookAll calls look on all operations under way.
func (m *machine) lookAll() {
	all := make([]*place, 0, len(m.places))
	for _, p := range m.places {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *place) int { return bytes.Compare(a.key[:], b.key[:]) }) // a fixed order, for tests
	for _, p := range all {
		if len(p.ops) > 0 {
			p.ops[0].look(m)
		}
	}
}

// applied handles an entry of the log.
func (m *machine) applied(position uint64, e *Entry) {
	m.position = position
	counted, changes := m.table.Apply(e)
	m.counts.owned.Store(int64(m.table.Len()))
	for _, c := range changes {
		if p := m.places[c.Key]; p != nil {
			p.ops[0].look(m)
		}
	}
	if slices.ContainsFunc(e.Records, func(r Record) bool { return r.Kind == Begin }) {
		m.lookAll()
	}
	if e.Writer == m.self {
		m.writes.outcome(e.Tag, counted)
	}
	m.reached()
}

// reached continues the operations that wait for a position of the log.
func (m *machine) reached() {
	var ready []*entering
	m.behind = slices.DeleteFunc(m.behind, func(o *entering) bool {
		if o.least > m.position {
			return false
		}
		ready = append(ready, o)
		return true
	})
	for _, o := range ready {
		if o.phase == waiting && o.least <= m.position {
			o.settle(m)
		}
	}
}
