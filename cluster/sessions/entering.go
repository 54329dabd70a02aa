package sessions

import (
	"slices"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// An entering is a client that connects here.
type entering struct {
	p        *place
	number   uint64
	self     string // the bridge
	since    int64
	party    protocol.Party
	clean    bool
	kept     bool
	phase    phase
	from     Node   // the process that was asked
	least    uint64 // position of the log that is waited for
	home     Node   // that was asked
	before   note   // the answer of the home
	owner    Owner  // the owner that the claim replaces
	epoch    uint32 // of the own claim
	shadow   bool   // the session has been made here, without a client
	over     bool   // the client has given up
	admitted bool   // the client was admitted
	moved    bool   // the session came from another bridge
	waited   bool   // there was a session here, but the client could not resume it directly
	answer   func(broker.Admission, error)
}

// A phase is the stage of an operation.
type phase byte

const (
	starting phase = iota

	// Of an entering.
	asking    // the home, for the holder of the id
	asked     // that bridge, to yield
	expecting // until all bridges know the subscriptions of the session
	ready     // the session is on its way
	storing   // it is being stored
	claiming  // its record is being written
	waiting   // for the log, or for the adoption of a dead bridge's sessions
	inside    // the client is let in

	// Of a yielding.
	offered  // the other bridge gets ready
	echoing  // publications of others are on their way
	settling // acknowledgements of the client's publications are outstanding
	sent     // the log decides on the owner
	reclaims // the other bridge cannot have it
)

func (o *entering) start(m *machine) {
	o.self = m.self.ID
	if here, _ := m.local.Here(o.p.id); here != broker.Absent {
		o.settle(m)
		o.waited = o.phase != inside
		return
	}
	o.number = m.next()
	m.asking[o.number] = o
	o.ask(m)
}

// ask asks the home for the holder of the id.
func (o *entering) ask(m *machine) {
	at := home(o.p.key, m.members())
	o.home = at
	if at == m.self {
		o.held(m, m.enters(o.p.key, m.self, o.since))
		return
	}
	o.phase, o.from = asking, at
	if o.overtaken(m) {
		return
	}
	m.send(at, &message{kind: msgAsk, op: o.number, id: o.p.id, stamp: o.since})
}

// held handles the answer of the home.
func (o *entering) held(m *machine, by note) {
	if by.holder == (Node{}) || by.holder == m.self || !m.alive(by.holder) {
		o.settle(m)
		return
	}
	o.before = by
	o.yield(m, by.holder)
}

func (o *entering) yield(m *machine, from Node) {
	switch here, _ := m.local.Here(o.p.id); here { // both were admitted while neither bridge could know of the other
	case broker.Clean:
		m.local.Supersede(o.p.id)
	case broker.Kept:
		m.local.Drop(o.p.id)
	}
	if o.number == 0 {
		o.number = m.next()
		m.asking[o.number] = o
	}
	o.phase, o.from = asked, from
	m.send(from, &message{kind: msgYield, op: o.number, id: o.p.id, party: o.party, clean: o.clean, stamp: o.since})
	o.overtaken(m)
}

// answered handles the answer of the bridge that was asked.
func (o *entering) answered(m *machine, msg *message) {
	switch {
	case msg.kind == msgHolder && o.phase == asking:
		o.held(m, note{msg.node, msg.stamp})
	case msg.kind == msgRefused && o.phase == asked:
		o.refuse(m, broker.ErrTaken)
	case msg.kind == msgGone && o.phase == asked:
		if msg.node != m.self && m.alive(msg.node) {
			o.yield(m, msg.node)
			return
		}
		o.await(m, msg.at)
	case msg.kind == msgOffer && o.phase == asked:
		o.expect(m, msg)
	case msg.kind == msgState && o.phase == ready:
		o.store(m, msg.body)
	}
}

// expect makes the session, without a client, so that nothing is missed that is
// published while it is on its way.
func (o *entering) expect(m *machine, msg *message) {
	o.owner, o.epoch = Owner{o.from.ID, msg.epoch}, msg.epoch+1
	o.phase = expecting
	number := o.number
	err := m.local.Expect(o.p.id, msg.body, o.epoch, func() { m.later(func() { m.known(number) }) })
	if err != nil {
		o.abort(m)
		return
	}
	o.shadow = true
}

// known handles the news that all bridges know the subscriptions of a session.
func (m *machine) known(number uint64) {
	o := m.asking[number]
	if o == nil || o.phase != expecting {
		return
	}
	m.local.Quiesce()
	o.phase = ready
	m.send(o.from, &message{kind: msgReady, op: number, id: o.p.id})
}

// store stores the session here.
func (o *entering) store(m *machine, state []byte) {
	o.phase = storing
	number := o.number
	if err := m.local.Take(o.p.id, state, func() { m.later(func() { m.stored(number) }) }); err != nil {
		o.abort(m)
	}
}

func (m *machine) stored(number uint64) {
	if o := m.asking[number]; o != nil && o.phase == storing {
		o.claim(m)
	}
}

// abort gives up a takeover whose session is malformed.
func (o *entering) abort(m *machine) {
	m.send(o.from, &message{kind: msgAbort, op: o.number, id: o.p.id})
	o.refuse(m, broker.ErrUnavailable)
}

// settle makes this bridge the owner in the log if the session is to be kept, and then
// lets the client in; or it continues with the living owner.
func (o *entering) settle(m *machine) {
	owner := m.table.Owner(o.p.key)
	switch {
	case owner.Bridge == m.self.ID:
		o.enter(m)
	case owner.Bridge == "" && !o.kept:
		o.enter(m)
	case owner.Bridge == "":
		o.owner, o.epoch = owner, m.fresh()
		o.claim(m)
	case m.alive(m.table.Process(owner.Bridge)):
		o.yield(m, m.table.Process(owner.Bridge))
	default:
		o.phase = waiting
		o.overtaken(m)
	}
}

// await continues with settle when the log was read up to a position.
func (o *entering) await(m *machine, position uint64) {
	if o.phase, o.least = waiting, position; position <= m.position {
		o.settle(m)
		return
	}
	m.behind = append(m.behind, o)
}

func (o *entering) claim(m *machine) {
	o.phase = claiming
	m.write(Record{Kind: Claim, Key: o.p.key, From: o.owner, To: o.epoch, Giver: o.from.Epoch}, func(counts bool) { o.claimed(m, counts) })
}

func (o *entering) claimed(m *machine, counts bool) {
	switch {
	case counts && o.shadow:
		o.shadow = false
		m.local.Own(o.p.id)
		m.listen(o.p.id, func() { m.local.AllCame(o.p.id) })
		m.counts.takeovers.Add(1)
		o.moved = true
		o.enter(m)
	case counts:
		o.enter(m)
	default:
		o.drop(m)
		o.settle(m)
	}
}

// drop gives up the session that was made to be taken over.
func (o *entering) drop(m *machine) {
	if o.shadow {
		o.shadow = false
		m.local.Drop(o.p.id)
	}
}

// look implements [operation].
func (o *entering) look(m *machine) {
	switch o.phase {
	case asking:
		if !m.alive(o.from) {
			o.ask(m)
		}
	case asked, expecting, ready:
		if !m.alive(o.from) {
			o.drop(m)
			o.settle(m)
		}
	case waiting:
		if o.least <= m.position {
			o.settle(m)
		}
	}
}

// enter lets the client in. The operation goes on until the client is inside.
func (o *entering) enter(m *machine) {
	delete(m.asking, o.number)
	o.phase = inside
	if o.over {
		o.leave(m)
		return
	}
	o.admitted = true
	owner := m.table.Owner(o.p.key)
	o.answer(broker.Admission{Epoch: owner.Epoch, Since: o.since, Done: func() { m.later(func() { o.leave(m) }) }}, nil)
}

// leave ends the operation of a client that is inside, or gone.
func (o *entering) leave(m *machine) {
	if here, since := m.local.Here(o.p.id); here != broker.Absent && (o.home.ID != "" || o.waited) {
		m.register(o.p.id, o.p.key, since) // a bridge that let the client in meanwhile finds out, or this one does
	}
	m.end(o.p)
}

func (o *entering) refuse(m *machine, err error) {
	o.drop(m)
	delete(m.asking, o.number)
	o.phase = inside
	if o.before != (note{}) && m.alive(o.before.holder) { // it still has the id
		m.say(home(o.p.key, m.members()), &message{kind: msgBack, id: o.p.id, node: o.before.holder, stamp: o.before.since})
	}
	if !o.over {
		o.answer(broker.Admission{}, err)
	}
	m.end(o.p)
}

// giveUp handles the end of the client's wait. A session on its way is taken over all
// the same.
func (o *entering) giveUp(m *machine) {
	if o.over {
		return
	}
	o.over = true
	switch {
	case o.phase == starting: // an earlier operation is still under way
		o.p.ops = slices.DeleteFunc(o.p.ops, func(op operation) bool { return op == operation(o) })
	case o.admitted: // but does not know of it
		o.leave(m)
	case o.phase == waiting:
		o.refuse(m, broker.ErrUnavailable)
	}
}

// idle reports whether the operation waits for other bridges, which may in turn wait
// for this one.
func (o *entering) idle() bool { return o.phase == asked || o.phase == waiting }

// isBefore reports whether the client came before one that connects to another
// bridge.
func (o *entering) isBefore(other *yielding) bool {
	return o.since < other.since || o.since == other.since && other.to.ID > o.self
}

// overtaken gives up if the id's client has connected to another bridge meanwhile,
// which may wait for this one.
func (o *entering) overtaken(m *machine) bool {
	i := slices.IndexFunc(o.p.ops, func(op operation) bool {
		other, ok := op.(*yielding)
		return ok && o.isBefore(other)
	})
	if i < 0 || !o.idle() {
		return false
	}
	by := o.p.ops[i].(*yielding)
	o.before = note{by.to, by.since}
	if o.phase == asked {
		m.send(o.from, &message{kind: msgAbort, op: o.number, id: o.p.id})
		by.next = o.from
	}
	o.refuse(m, broker.ErrOvertaken)
	return true
}
