package sessions

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A yielding gives a session to the bridge that its client connects to.
type yielding struct {
	p      *place
	to     Node
	number uint64 // of the other bridge's operation
	since  int64  // when the client connected there
	party  protocol.Party
	clean  bool

	phase phase
	owner Owner
	echo  uint64
	ended bool
	next  Node // the holder, if a client that was about to enter here is refused
}

func (o *yielding) start(m *machine) {
	o.owner = m.table.Owner(o.p.key)
	here, _ := m.local.Here(o.p.id)
	if !m.alive(o.to) {
		m.end(o.p)
		return
	}
	if here == broker.Kept && o.owner.Bridge != m.self.ID {
		m.local.Drop(o.p.id) // another bridge owns it by now
		here = broker.Absent
	}
	if here == broker.Absent {
		o.gone(m)
		return
	}
	offer, became := m.local.Offer(o.p.id, o.party, o.clean)
	switch became {
	case broker.OfferRefused:
		m.send(o.to, &message{kind: msgRefused, op: o.number, id: o.p.id})
		m.end(o.p)
	case broker.OfferEnded:
		m.counts.ended.Add(1)
		o.gone(m)
	default:
		o.phase = offered
		m.send(o.to, &message{kind: msgOffer, op: o.number, id: o.p.id, epoch: o.owner.Epoch, body: offer})
	}
}

// gone reports to the other bridge that there is no session, once it is released in the
// log.
func (o *yielding) gone(m *machine) {
	if o.owner = m.table.Owner(o.p.key); o.owner.Bridge != m.self.ID {
		m.send(o.to, &message{kind: msgGone, op: o.number, id: o.p.id, at: m.position, node: o.next})
		m.end(o.p)
		return
	}
	o.phase = claiming
	m.write(Record{Kind: Release, Key: o.p.key, From: o.owner}, func(bool) { o.gone(m) })
}

// told handles a message of the other bridge.
func (o *yielding) told(m *machine, kind byte) {
	switch {
	case kind == msgReady && o.phase == offered:
		o.listen(m)
	case kind == msgAbort && o.phase >= offered && o.phase < reclaims:
		o.reclaim(m)
	}
}

// listen waits for all publications that bridges sent here before they knew the
// subscriptions of the other bridge.
func (o *yielding) listen(m *machine) {
	o.phase = echoing
	o.echo = m.listen(o.p.id, func() {
		m.local.Quiesce()
		o.phase = settling
		o.cut(m)
	})
}

// cut sends the session, if peers have answered for all that its client published.
func (o *yielding) cut(m *machine) {
	state, settled := m.local.Cut(o.p.id)
	if !settled {
		return
	}
	o.phase = sent
	m.send(o.to, &message{kind: msgState, op: o.number, id: o.p.id, body: state})
}

// reclaim claims the session for this bridge again. A claim of the other bridge that is
// on its way has no effect after that.
func (o *yielding) reclaim(m *machine) {
	delete(m.echoes, o.echo)
	o.phase = reclaims
	m.write(Record{Kind: Claim, Key: o.p.key, From: o.owner, To: o.owner.Epoch + 1}, func(counts bool) {
		if o.ended {
			return // the other bridge's claim came first
		}
		if !counts {
			o.look(m)
			return
		}
		m.counts.resumed.Add(1)
		m.local.Resume(o.p.id, o.owner.Epoch+1)
		if here, since := m.local.Here(o.p.id); here != broker.Absent {
			m.register(o.p.id, o.p.key, since)
		}
		m.end(o.p)
	})
}

// look implements [operation].
func (o *yielding) look(m *machine) {
	if o.phase < offered {
		return
	}
	if m.table.Owner(o.p.key).Bridge != m.self.ID {
		delete(m.echoes, o.echo)
		m.local.Drop(o.p.id)
		o.ended = true
		m.end(o.p)
		return
	}
	if o.phase != reclaims && !m.alive(o.to) {
		o.reclaim(m)
	}
}

// A releasing is the operation that releases a session in the log that is not kept any
// more.
type releasing struct{ p *place }

func (o *releasing) start(m *machine) {
	owner := m.table.Owner(o.p.key)
	if here, _ := m.local.Here(o.p.id); here == broker.Kept || owner.Bridge != m.self.ID {
		m.end(o.p)
		return
	}
	m.write(Record{Kind: Release, Key: o.p.key, From: owner}, func(bool) { m.end(o.p) })
}

func (o *releasing) look(*machine) {}

// A losing is the operation that closes the connection of a client that has since
// connected to another bridge, while neither bridge could know of the other.
type losing struct {
	p     *place
	since int64
}

func (o *losing) start(m *machine) {
	switch here, since := m.local.Here(o.p.id); {
	case here == broker.Absent:
	case since <= o.since:
		m.counts.ended.Add(1)
		m.local.Supersede(o.p.id)
	default: // its client has connected here again, later than that
		m.register(o.p.id, o.p.key, since)
	}
	m.end(o.p)
}

func (o *losing) look(*machine) {}
