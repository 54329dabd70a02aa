package broker

import (
	"cmp"
	"sync/atomic"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// Peers are the other bridges of a cluster. Publications of clients here, and
// messages of the bridge to somebody, are carried to the bridges that have
// subscribers for them. Methods are called with locks of the broker held: they
// must not block, and must not call the broker.
type Peers interface {
	// Subscribed counts an interest of a client here, Unsubscribed no longer does.
	Subscribed(Interest)
	Unsubscribed(Interest)
	// Announced answers the receipt when every peer knows all earlier
	// subscriptions.
	Announced(Answerer)
	// Group names a group of shared subscriptions, 0 for none.
	Group(space protocol.SpaceID, name, filter string) uint64
	// Away lists the peers with subscribers of a topic among the clients of the
	// spaces and, if every is set, among the clients that hear all spaces; nil if
	// there are none. The list is good until Epoch moves.
	Away(topic string, every bool, spaces ...protocol.SpaceID) *Away
	// All lists the peers.
	All() []Peer
	// Self is the process of this bridge, as [Peer.Process] tells it elsewhere.
	Self() Process
	Epoch() uint64
	// Flush sends the messages that were queued for peers.
	Flush()
}

// An Interest is what a client listens to.
type Interest struct {
	Space  protocol.SpaceID
	Every  bool   // the client hears all spaces
	Group  string // of a shared subscription, "" for others
	Filter string // without $share/group/
}

// A Peer is one of the other bridges.
type Peer interface {
	// Send queues a message for the peer, for its clients' own subscriptions and
	// for one member of each of the groups. Its fate is told to the receipt, if
	// there is one. Of QoS 0 it may be dropped.
	Send(m Outgoing) SendResult
	// Room is closed when the queue has room again.
	Room() <-chan struct{}
	// Process is the receiver of messages that are sent from now on.
	Process() Process
}

// A Process is one run of a bridge.
type Process struct {
	ID    string // of the bridge
	Epoch uint64
}

// An Outgoing is a message on its way to a peer. Nothing of it is kept.
type Outgoing struct {
	Encoded []byte // for [Arrival.Deliver]
	Groups  []uint64
	QoS     byte
	Receipt Answerer // nil if nobody waits
	// Telling says that the receipt has to be told what became of the message,
	// not only that the peer has it.
	Telling bool
	// Only says that the message is for the groups and for nobody else.
	Only bool
}

// A SendResult says what became of a message that was given to a peer.
type SendResult byte

// Results of [Peer.Send].
const (
	SendDropped SendResult = iota
	SendQueued
	SendCrowded // queued, but whoever sends more should wait for room
)

// An Away lists the peers with subscribers of a topic.
type Away struct {
	Peers  []Peer
	Groups []AwayGroup
}

// An AwayGroup is a group of shared subscriptions with members elsewhere.
type AwayGroup struct {
	ID      uint64
	Members []AwayMembers
	count   uint32
}

// AwayMembers are the members that a group has at a peer.
type AwayMembers struct {
	Peer  Peer
	Count uint32
}

// Add notes members at a peer.
func (g *AwayGroup) Add(m AwayMembers) {
	g.Members = append(g.Members, m)
	g.count += m.Count
}

// pick is the peer whose turn it is.
func (g *AwayGroup) pick(turn uint32) Peer {
	for _, m := range g.Members {
		if turn < m.Count {
			return m.Peer
		}
		turn -= m.Count
	}
	return g.Members[0].Peer
}

// An Outcome says what became of a message at a peer.
type Outcome byte

// Outcomes, the better the higher.
const (
	Missed Outcome = iota // nobody was there for it
	Full                  // there was no room for it
	Taken                 // somebody has it, or will get it
)

// An Answerer is told once what became of something at a peer.
type Answerer interface{ Answer(Outcome) }

// A Receipt waits for peers to answer, and has an acknowledgement sent then.
type Receipt struct {
	b    *Broker
	s    *session
	left atomic.Int32 // answers that have not come
	best atomic.Uint32

	verdict  atomic.Uint32 // of a handler, a failure or 0
	unstored atomic.Bool   // see [Verdict]
	numbered *numbered     // the publish that waits, if that is a numbered one
	then     func()        // is called instead, where no client waits
}

// Answer is a peer's. The broker's AnswerReceipts has the acknowledgements sent.
func (r *Receipt) Answer(o Outcome) {
	for best := r.best.Load(); uint32(o) > best && !r.best.CompareAndSwap(best, uint32(o)); best = r.best.Load() {
	}
	if r.left.Add(-1) == 0 {
		r.b.receipts.add(r)
	}
}

func (r *Receipt) done() bool { return r == nil || r.left.Load() <= 0 }

// reason is that of the acknowledgement of a message that had no receiver here.
func (r *Receipt) reason() packet.Reason {
	switch Outcome(r.best.Load()) {
	case Taken:
		return packet.Success
	case Full:
		return packet.QuotaExceeded
	}
	return packet.NoMatchingSubscribers
}

// failed reports whether the publish was refused.
func (r *Receipt) failed() bool {
	return packet.Reason(r.verdict.Load()).Failed() || r.reason().Failed()
}

// order compares when publishes came.
func (r *Receipt) order(o *Receipt) int {
	if r.numbered == nil || o.numbered == nil {
		return 0
	}
	return cmp.Compare(r.numbered.number, o.numbered.number)
}

// AnswerReceipts sends the acknowledgements that answers of peers were missing for.
func (b *Broker) AnswerReceipts() {
	sessions, calls := b.receipts.take()
	for _, then := range calls {
		then()
	}
	if len(sessions) == 0 {
		return
	}
	t := b.getTurn().begin()
	for _, s := range sessions {
		if c := s.conn.Load(); c != nil {
			t.settleOwed(c)
		} else {
			t.settleAbsent(s)
		}
		b.tellSettled(s)
	}
	b.putTurn(t)
}

// interest is the form of a subscription that peers see.
func (sub *subscription) asInterest() Interest {
	i := Interest{Space: sub.session.owner.Space, Every: sub.every, Filter: sub.interest.filter}
	if sub.group != nil {
		i.Group = sub.group.key.name
	}
	return i
}

// hearsEvery tells peers that a session hears every space by now, or no longer
// does; its mu is held.
func (x *index) hearsEvery(s *session, every bool) {
	if x.peers == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for sub := range s.subs.all() {
		if sub.interest == nil || sub.every == every {
			continue
		}
		before := sub.asInterest()
		sub.every = every
		x.peers.Subscribed(sub.asInterest())
		x.peers.Unsubscribed(before)
	}
}

// served reports whether the turn's message is at its goal: what the bridge says
// to somebody, such as an answer, goes elsewhere only if nobody is here for it.
func (t *turn) served(best deliveryResult) bool {
	_, few := t.msg.to.parties()
	return few && best == taken && t.msg.from == ""
}

// away are the others with subscribers for the turn's message, nil for nobody.
func (t *turn) away(r *route) *Away {
	m, peers := &t.msg, t.b.index.peers
	if m.here {
		return nil
	}
	every := m.to.hasUnbounded()
	if parties, ok := m.to.parties(); ok && parties[0].Space != parties[1].Space {
		return peers.Away(r.topic, every, parties[0].Space, parties[1].Space)
	} else if ok {
		return r.awayOf(peers, parties[0].Space, every)
	}
	return r.awayOf(peers, m.to.space, every)
}

func (r *route) awayOf(peers Peers, space protocol.SpaceID, every bool) *Away {
	key := awayKey{peers.Epoch(), space, every}
	if r.awayFor != key {
		r.awayFor, r.awayIs = key, peers.Away(r.topic, every, space)
	}
	return r.awayIs
}

// An awayKey says for whom, and until when, it is known who is away.
type awayKey struct {
	epoch uint64
	space protocol.SpaceID
	every bool
}

// A sending is what a peer is to be sent of the turn's message.
type sending struct {
	peer   Peer
	groups []uint64
}

// deliverAway sends the turn's message to peers too. best is what became of it
// here so far; groups with members at peers are served with those here.
func (t *turn) deliverAway(r *route, away *Away, count func(deliveryResult)) {
	t.sendings = t.sendings[:0]
	for _, p := range away.Peers {
		t.sendings = append(t.sendings, sending{peer: p})
	}
	for i, g := range r.groups {
		if t.declined(g) {
			continue
		}
		if t.isProvided(g.id) {
			count(waits)
			continue
		}
		there := away.group(g.id)
		if there == nil {
			count(t.deliverGroup(g, r.members[i]))
		} else if p := t.shareWith(g, r.members[i], there, count); p != nil {
			t.sendGroup(p, g.id)
		}
	}
	for i := range away.Groups {
		if g := &away.Groups[i]; !r.hasGroup(g.ID) && !t.isProvided(g.ID) {
			t.sendGroup(g.pick(t.b.shareTurns.Add(1)%g.count), g.ID)
		}
	}
}

// shareWith gives the message to a member of a group here, or returns the peer
// that has the one whose turn it is.
func (t *turn) shareWith(g *group, members []*subscription, there *AwayGroup, count func(deliveryResult)) Peer {
	here := uint32(len(members))
	at := g.next.Add(1) % (here + there.count)
	if at < here {
		if o := t.deliverShared(g, members); o >= waits {
			count(o)
			return nil
		}
		at = here + t.b.shareTurns.Add(1)%there.count
	}
	return there.pick(at - here)
}

func (a *Away) group(id uint64) *AwayGroup {
	for i := range a.Groups {
		if a.Groups[i].ID == id {
			return &a.Groups[i]
		}
	}
	return nil
}

func (r *route) hasGroup(id uint64) bool {
	for _, g := range r.groups {
		if g.id == id {
			return true
		}
	}
	return false
}

func (t *turn) sendGroup(p Peer, id uint64) {
	for i := range t.sendings {
		if t.sendings[i].peer == p {
			t.sendings[i].groups = append(t.sendings[i].groups, id)
			return
		}
	}
	t.sendings = append(t.sendings, sending{p, []uint64{id}})
}

// hold is the receipt of the message in hand for one answer more, nil if nobody
// waits for its acknowledgement. Of QoS 0 only a Will is waited for.
func (t *turn) hold() *Receipt {
	if t.receipt == nil {
		if t.msg.qos == 0 || t.publisher == nil {
			return nil
		}
		t.receipt = &Receipt{b: t.b, s: t.publisher}
		t.receipt.left.Store(1) // until the turn has found all
	}
	t.receipt.left.Add(1)
	return t.receipt
}

// sendAway gives the turn's message to the peers it is for, after everybody here
// has it.
func (t *turn) sendAway(best deliveryResult, count func(deliveryResult)) {
	m := &t.msg
	if len(t.sendings) == 0 { // groups chose members here
		return
	}
	encoded, ok := t.encodeAway()
	if !ok {
		return
	}
	t.relayed = true
	if t.hold() != nil {
		t.receipt.left.Add(int32(len(t.sendings)) - 1)
		switch {
		case best >= waits:
			t.receipt.best.Store(uint32(Taken))
		case best == full:
			t.receipt.best.Store(uint32(Full))
		}
	}
	for i := range t.sendings {
		to := &t.sendings[i]
		out := Outgoing{Encoded: encoded, Groups: to.groups, QoS: m.qos}
		if t.receipt != nil {
			out.Receipt, out.Telling = t.receipt, best < waits
		}
		switch to.peer.Send(out) {
		case SendCrowded:
			t.crowded = to.peer
			fallthrough
		case SendQueued:
			t.reached = append(t.reached, to.peer)
			if t.receipt == nil {
				count(taken)
			}
		default:
			t.count.dropped++
			count(full)
		}
		*to = sending{}
	}
}

// waitForRoom has the connection's reader wait until the peer that is behind
// has room.
func (t *turn) waitForRoom(c *conn) {
	p := t.crowded
	t.crowded = nil
	if p == nil || c.job != nil {
		return
	}
	room, closing := p.Room(), t.b.closing
	c.job = func() {
		select {
		case <-room:
		case <-closing:
		}
	}
}

// receiptOf is the receipt that the acknowledgement of the message in hand waits
// for, if any.
func (t *turn) receiptOf(s *session, p *packet.Publish) *Receipt {
	r := t.receipt
	t.receipt = nil
	if r == nil {
		return nil
	}
	r.left.Add(-1) // of the turn itself
	if p.QoS != 2 {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepting == nil {
		s.accepting = make(map[uint16]*Receipt)
	}
	s.accepting[p.PacketID], r.numbered = r, t.numbered
	return r
}

// endAway has what the turn gave to peers sent.
func (t *turn) endAway() {
	if t.relayed {
		t.relayed = false
		t.b.index.peers.Flush()
	}
}

// announced is the receipt for new subscriptions: all peers know of them.
func (t *turn) announced(s *session, granted []*subscription) *Receipt {
	peers := t.b.index.peers
	if peers == nil || len(granted) == 0 {
		return nil
	}
	r := &Receipt{b: t.b, s: s}
	r.left.Store(1)
	peers.Announced(r)
	return r
}
