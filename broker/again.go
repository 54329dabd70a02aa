package broker

import (
	"slices"
	"sync"
)

// know enters the turn's message, which has an origin, into the remembered
// publications.
func (t *turn) know(from Mark) {
	if t.origin.id == 0 {
		from = wills
	}
	key := t.origin.key(SessionID{t.msg.to.space, t.msg.from})
	from.Offset = 0
	t.known, t.before = t.b.origins.enter(key, &t.origin, from)
	t.overtaken = t.known.overtakes(&t.origin)
}

// isProvided reports whether a group is given the turn's message no more: a member has
// it, or gets it from the bridge that has asked all bridges since.
func (t *turn) isProvided(group uint64) bool {
	return t.known != nil && (t.overtaken || t.before && t.b.origins.served(t.known, group))
}

// gave notes that a session has got the turn's message, for a group or by itself.
func (t *turn) gave(s *session, group uint64) {
	s.mu.Lock()
	g := given{s: s, group: group, as: t.msg.number}
	if s.record.known {
		g.serial = s.record.serial
	}
	s.mu.Unlock()
	t.given = append(t.given, g)
}

// noteGiven records the receivers of the turn's message, also in the journal, and lets
// others give it to more.
func (t *turn) noteGiven() {
	k, list := t.known, t.given
	t.known, t.given, t.overtaken = nil, t.given[:0], false
	defer t.b.origins.leave(k)
	if len(list) == 0 {
		return
	}
	all := t.b.origins.give(k, list)
	clear(list)
	if t.b.journal != nil {
		t.b.journal.log(t, func(dst []byte) []byte { return appendKnown(dst, k, all) })
	}
}

// holdGroup keeps all records until release in one group of the journal.
func (t *turn) holdGroup() (release func()) {
	if t.b.journal == nil {
		return func() {}
	}
	t.b.journal.hold.RLock()
	return t.b.journal.hold.RUnlock
}

// deliverOriginal delivers the turn's message, which has an origin, to all receivers
// that lack it.
func (t *turn) deliverOriginal(r *route, best *deliveryResult, count func(deliveryResult)) {
	defer t.holdGroup()()
	t.know(Mark{})
	defer t.noteGiven()
	for i := range r.targets {
		count(t.deliverOnce(&r.targets[i]))
	}
	if t.origin.again {
		t.repeatAway(r, *best, count)
		return
	}
	if away := t.away(r); away != nil {
		t.deliverAway(r, away, count)
		t.sendAway(*best, count)
		return
	}
	for i, g := range r.groups {
		count(t.deliverGroup(g, r.members[i]))
	}
}

// deliverOnce gives the turn's message to a target that does not have it.
func (t *turn) deliverOnce(tg *target) deliveryResult {
	switch {
	case t.known == nil:
		return t.deliverTo(tg)
	case t.before && t.b.origins.has(t.known, tg.s):
		return waits
	}
	o := t.deliverTo(tg)
	if o >= waits {
		t.gave(tg.s, 0)
	}
	return o
}

// deliverGroup gives the turn's message to a member that a group has here, unless
// one has it. If members are just moving, it waits for them.
func (t *turn) deliverGroup(g *group, members []*subscription) deliveryResult {
	if t.isProvided(g.id) {
		return waits
	}
	if t.declined(g) {
		return missed
	}
	became := t.deliverShared(g, members)
	if became == missed && t.msg.qos > 0 && slices.ContainsFunc(members, (*subscription).isMoving) {
		t.offerLater(g)
	}
	return became
}

func (sub *subscription) isMoving() bool {
	s := sub.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moving != staying && !s.ended
}

// offerLater has the turn's message offered to a group until a member takes it; its
// publisher waits for that.
func (t *turn) offerLater(g *group) {
	r := &redelivery{b: t.b, msg: t.keep(), qos: t.msg.qos, group: g, id: g.id, origin: t.origin}
	r.origin.again = false // the bridges are asked no more
	if receipt := t.hold(); receipt != nil {
		r.receipt = receipt
	}
	t.b.timers.offer(r)
}

// repeatAway sends the turn's message, which was repeated, to the receivers at peers
// that lack it. A group's receiver is known only to the bridges of its members: all
// peers are asked, and a group that has none is offered the message, for any member.
func (t *turn) repeatAway(r *route, best deliveryResult, count func(deliveryResult)) {
	away := t.away(r)
	var groups []uint64
	for _, g := range r.groups {
		switch {
		case t.isProvided(g.id):
			count(waits)
		case !t.declined(g):
			groups = append(groups, g.id)
		}
	}
	var peers []Peer
	if away != nil {
		peers = away.Peers
		for i := range away.Groups {
			if id := away.Groups[i].ID; !r.hasGroup(id) && !t.isProvided(id) {
				groups = append(groups, id)
			}
		}
	}
	if len(groups) > 0 {
		peers = t.b.index.peers.All()
	}
	encoded, ok := t.encodeAway()
	if len(peers) == 0 || !ok {
		for i, g := range r.groups {
			count(t.deliverGroup(g, r.members[i]))
		}
		return
	}
	t.relayed = true
	t.hold()
	switch {
	case best >= waits:
		t.receipt.best.Store(uint32(Taken))
	case best == full:
		t.receipt.best.Store(uint32(Full))
	}
	all := &recall{b: t.b, msg: t.keep(), origin: t.origin, receipt: t.receipt, asked: len(peers), left: len(peers), lack: make(map[uint64]int)}
	for _, id := range groups {
		all.lack[id] = 0
	}
	for _, p := range peers {
		switch p.Send(Outgoing{Encoded: encoded, Groups: groups, QoS: t.msg.qos, Receipt: all, Telling: true}) {
		case SendCrowded:
			t.crowded = p
			fallthrough
		case SendQueued:
			t.reached = append(t.reached, p)
		}
	}
}

// A recall waits until all peers have said for which groups they have given a
// message to nobody.
type recall struct {
	b       *Broker
	msg     *message
	origin  origin
	receipt *Receipt

	mu    sync.Mutex
	asked int
	left  int
	best  Outcome
	lack  map[uint64]int // how many peers have given it to nobody, by group
}

// Answer implements [Answerer]. With Taken, all groups have the message from that
// peer; with any other outcome, none has.
func (r *recall) Answer(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o != Taken {
		for id := range r.lack {
			r.lack[id]++
		}
	}
	r.answered(o)
}

// lacks takes the answer of a peer that has delivered the message to nobody in the
// named groups; o is its outcome otherwise.
func (r *recall) lacks(groups []uint64, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range groups {
		r.lack[id]++
	}
	r.answered(o)
}

// answered counts an answer. After the last one, groups that lack the message are
// offered it. mu is held.
func (r *recall) answered(o Outcome) {
	r.best = max(r.best, o)
	if r.left--; r.left > 0 {
		return
	}
	r.origin.again = false
	for id, n := range r.lack {
		if n < r.asked {
			r.best = Taken
			continue
		}
		r.receipt.left.Add(1)
		r.b.timers.offer(&redelivery{b: r.b, msg: r.msg, qos: r.msg.qos, id: id, origin: r.origin, receipt: r.receipt})
	}
	r.receipt.Answer(r.best)
}
