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
	// Here says what the bridge has of a client id, and since when.
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

// A machine has one bridge's part in who owns which session. It knows no clock
// and no network: it is told what happens, one thing after the other, and says
// what to send and what to write.
//
// What happens to a client id is done one after the other; the place of the id
// has it.
type machine struct {
	self   Node
	secret *Secret
	local  Local
	table  *Table
	send   func(to Node, m *message)
	later  func(func())  // does something after what is being done, by whoever does that
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

// A note is what the home of an id knows of it.
type note struct {
	holder Node
	since  int64
}

// A place is a client id with something under way.
type place struct {
	id  broker.SessionID
	key Key
	ops []operation // the first is under way
}

// An operation is something that happens to a client id.
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

// begin has an operation done behind those that are under way for an id.
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

// tidy has the log and the home of an id know what the bridge does not have any
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

// serve has the machine answer for a broker.
func (m *machine) serve(local Local) {
	m.local = local
	m.registerAll()
	for _, id := range m.early {
		m.left(id)
	}
	m.early = nil
}

// left is told that a session ended here, or is not kept any more.
func (m *machine) left(id broker.SessionID) {
	if m.local == nil { // it is still being made, of a journal with a session whose time is over
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

// take takes a message of a living bridge.
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
// was earlier, and has to come again.
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

// toldYielding takes what the bridge says that a session goes to.
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

// settled is told that a session that is to be cut can be.
func (m *machine) settled(id broker.SessionID) {
	if p := m.places[m.secret.Key(id)]; p != nil {
		if o, ok := p.ops[0].(*yielding); ok && o.phase == settling {
			o.cut(m)
		}
	}
}

// reconcile takes up who else is alive.
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

// lookAll has all that is under way look at what has changed.
func (m *machine) lookAll() {
	all := make([]*place, 0, len(m.places))
	for _, p := range m.places {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *place) int { return bytes.Compare(a.key[:], b.key[:]) }) // the same for tests
	for _, p := range all {
		if len(p.ops) > 0 {
			p.ops[0].look(m)
		}
	}
}

// applied takes an entry of the log.
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

// reached has those go on who wait for a position of the log.
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
