package broker

import (
	"slices"
	"time"
)

// A redelivery is a message that a group of shared subscriptions gave to somebody
// who left before taking it. It is offered to the members here, then to those of
// each other bridge, until one takes it.
type redelivery struct {
	b      *Broker
	msg    *message
	qos    byte
	group  *group // as somebody left it; nil if only its id is known
	id     uint64 // of the group among peers
	tried  []Peer // that had nobody, since it was put off last
	until  int64  // steady: when it is given up; 0 before it was put off
	origin origin
	full   bool // somebody had no room for it
	// receipt waits for what becomes of it; nil if nobody does. became is what has
	// become of the message beside.
	receipt Answerer
	became  Outcome
}

// redeliveryPatience is the time that a message waits for a group that has no members
// anywhere: those that move are in between, those of a dead bridge have to be
// adopted.
const redeliveryPatience = 15 * time.Second

// redeliver offers what a session left behind to other members of its group.
func (k *timers) redeliver(p pending) {
	k.offer(&redelivery{b: k.b, msg: p.msg, qos: p.qos, group: p.group, id: p.group.id})
}

// offer offers a message soon. One of a dead bridge's session goes to members
// everywhere by its adopter: nobody tells that bridge who they are.
func (k *timers) offer(r *redelivery) {
	if adopter := k.b.options.adopter; adopter != nil {
		r.b = adopter
		adopter.timers.offer(r)
		return
	}
	k.mu.Lock()
	k.orphan = append(k.orphan, r)
	k.mu.Unlock()
	k.alert()
}

// putOff offers a message again with the next tick.
func (k *timers) putOff(r *redelivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.later = append(k.later, r)
}

// resume has what was put off offered again.
func (k *timers) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.orphan = append(k.orphan, k.later...)
	k.later = nil
}

// Reoffer offers a message that was given to a peer to others: nobody there took
// it for some groups. The receipt, if there is one, is answered when all is done;
// became is the message's fate otherwise.
func (b *Broker) Reoffer(encoded []byte, groups []uint64, became Outcome, receipt Answerer) {
	if all, ok := receipt.(*recall); ok {
		all.lacks(groups, became)
		return
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	if err := t.decodeAway(encoded); err != nil || len(groups) == 0 {
		if receipt != nil {
			receipt.Answer(became)
		}
		return
	}
	if all, ok := receipt.(*Receipt); ok {
		all.left.Add(int32(len(groups)) - 1)
	}
	m := t.keep()
	for _, id := range groups {
		b.timers.offer(&redelivery{b: b, msg: m, qos: m.qos, id: id, origin: t.origin, became: became, receipt: receipt})
	}
}

// redeliver offers a message to the next who may take it.
func (t *turn) redeliver(r *redelivery) {
	t.use(r.msg)
	t.msg.qos = max(t.msg.qos, r.qos)
	t.msg.here = false
	t.origin = r.origin
	route := t.routeOf(r.msg.topic)
	if t.origin.number != 0 {
		defer t.holdGroup()()
		t.know(Mark{})
		defer t.noteGiven()
		if t.isProvided(r.id) {
			r.end(Taken)
			return
		}
	}
	for _, g := range route.groups {
		if !r.isFor(g) {
			continue
		}
		if t.declined(g) {
			r.end(Missed)
			return
		}
		switch t.deliverShared(g, g.current(t.b)) {
		case taken, waits:
			r.end(Taken)
			return
		case full:
			r.full = true
		}
	}
	if t.b.index.peers == nil {
		return
	}
	if peer := t.untried(r, route); peer != nil {
		t.redeliverAway(r, peer)
		return
	}
	if r.until == 0 {
		r.until = t.now + int64(redeliveryPatience)
	}
	switch {
	case r.full:
		r.end(Full)
	case t.now >= r.until:
		r.end(Missed)
	default:
		r.tried = nil
		t.b.timers.putOff(r)
	}
}

func (r *redelivery) isFor(g *group) bool {
	if r.group != nil {
		return r.group.key == g.key && r.group.filter == g.filter
	}
	return g.id == r.id
}

// untried is a peer with members of the group that was not asked yet.
func (t *turn) untried(r *redelivery, route *route) Peer {
	away := t.away(route)
	if away == nil {
		return nil
	}
	there := away.group(r.id)
	if there == nil {
		return nil
	}
	var left AwayGroup
	for _, m := range there.Members {
		if !slices.Contains(r.tried, m.Peer) {
			left.Add(m)
		}
	}
	if left.count == 0 {
		return nil
	}
	return left.pick(t.b.shareTurns.Add(1) % left.count)
}

// redeliverAway gives a message to a peer, for the group alone.
func (t *turn) redeliverAway(r *redelivery, peer Peer) {
	encoded, ok := t.encodeAway()
	if !ok { // its time is over
		r.end(Taken)
		return
	}
	r.tried = append(r.tried, peer)
	t.relayed = true
	peer.Send(Outgoing{Encoded: encoded, Groups: []uint64{r.id}, Only: true, QoS: t.msg.qos, Receipt: r, Telling: true})
}

// Answer implements [Answerer]: a peer says what became of it there.
func (r *redelivery) Answer(o Outcome) {
	if o == Taken {
		r.end(Taken)
		return
	}
	r.full = r.full || o == Full
	r.b.timers.offer(r)
}

// end tells who waits what became of it. It drops what nobody takes.
func (r *redelivery) end(o Outcome) {
	if r.receipt != nil {
		r.receipt.Answer(max(o, r.became))
	}
}
