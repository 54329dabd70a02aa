package broker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// forever is the session expiry of a session that never ends by itself.
const forever = math.MaxUint32

// A session is the state MQTT keeps for a client id of a space, across
// connections when it asked for that.
type session struct {
	id     string
	owner  protocol.Party // which stays the same
	events teller
	claim  sync.Mutex // held while a client connects to the session
	dated  int        // place in timers.dates, counted from 1, or 0; guarded by timers.mu

	conn     atomic.Pointer[conn] // changed with mu held
	behind   atomic.Bool          // the queues or the window have something to send
	late     atomic.Bool          // zeros is not empty
	every    atomic.Bool          // the principal hears messages of any space
	upgrades bool                 // messages have the QoS of the subscription at least; never changed

	waiting   atomic.Int32 // inbound QoS 1 and 2 publishes that wait to be stored; changed with mu held
	receiving atomic.Int32 // identifiers in inbound that came by this connection; changed with mu held

	mu         sync.Mutex
	principal  *protocol.Principal // the owner
	client     *Client             // the last one connected
	expires    int64               // steady time when it ends, while no client is connected
	expiry     uint32              // seconds, 0 ends with the connection
	epoch      uint32              // of this bridge's ownership, see [Admission]
	since      int64               // when its last client connected, as directories count it
	ended      bool
	entering   bool            // a client is about to have it: it does not end by time
	held       bool            // counts as kept
	moving     moving          // between bridges
	cutting    bool            // it is to be cut as soon as it is settled
	full       bool            // the queue is, and that was said
	had        map[uint64]bool // publications that came with it from another bridge, and may come again
	subs       subscriptions
	window     window
	credit     int                     // publishes the client may still be sent unacknowledged
	queue      fifo                    // QoS 1 and 2
	room       *Waiting                // its own limits; nil for those of all
	dropped    uint64                  // messages that found no room
	zeros      *fifo                   // QoS 0: retained messages and what came after them; nil for none
	accepting  map[uint16]*Receipt     // of inbound QoS 2 messages that peers have not answered for
	sender     senderState             // of inbound QoS 2 messages, where there are peers
	inbound    map[uint16]bool         // QoS 2 identifiers between PUBLISH and PUBREL; true if they came by this connection
	lent       map[uint16]func(Return) // callbacks of lent messages, by packet identifier
	will       *will
	record     sessionRecord
	recordedAt uint64 // position of its newest record that an answer waits for
}

// A pending is one message owed to a session.
type pending struct {
	msg    *message
	ids    []uint32 // subscription identifiers
	group  *group   // the shared subscription it came by
	qos    byte
	retain bool
	free   bool   // of the queue's limits: a retained message, which is there anyway
	ready  uint64 // journal position that must be reached before it is sent
}

// hears reports whether a message may reach the session: messages of one
// space is not heard in another, whatever the topics are called.
func (s *session) hears(m *message) bool {
	return m.to.has(&s.owner) || m.to.hasUnbounded() && s.every.Load()
}

// key names the session.
func (s *session) key() SessionID { return SessionID{s.owner.Space, s.id} }

// sent reports whether a message was published by the session's client.
func (s *session) sent(m *message) bool { return s.id == m.from && s.owner.Space == m.to.space }

// is notes who the session's principal is by now; its mu is held.
func (s *session) is(who *protocol.Principal) {
	s.principal = who
	s.every.Store(who.Unbounded())
}

// keeps reports whether the session outlives its connection.
func (s *session) keeps() bool { return s.expiry > 0 }

// pushZero puts a message of QoS 0 behind others.
func (s *session) pushZero(p pending) {
	if s.zeros == nil {
		s.zeros = new(fifo)
	}
	s.zeros.push(p)
}

// A fifo is a queue of messages owed. The zero value is empty, and so is nil.
type fifo struct {
	items []pending
	from  int
	bytes int

	free, freeBytes int // free room
}

func (q *fifo) len() int {
	if q == nil {
		return 0
	}
	return len(q.items) - q.from
}

// freeOnes is the number of messages that count for no limit.
func (q *fifo) freeOnes() int {
	if q == nil {
		return 0
	}
	return q.free
}

func (q *fifo) push(p pending) {
	if q.from > 32 && q.from > len(q.items)/2 {
		n := copy(q.items, q.items[q.from:])
		clear(q.items[n:])
		q.items, q.from = q.items[:n], 0
	}
	q.items = append(q.items, p)
	q.bytes += p.msg.size()
	if p.free {
		q.free++
		q.freeBytes += p.msg.size()
	}
}

func (q *fifo) peek() *pending { return &q.items[q.from] }

func (q *fifo) pop() {
	p := &q.items[q.from]
	q.bytes -= p.msg.size()
	if p.free {
		q.free--
		q.freeBytes -= p.msg.size()
	}
	*p = pending{}
	if q.from++; q.from == len(q.items) {
		*q = fifo{items: q.items[:0]}
		if cap(q.items) > 64 {
			q.items = nil
		}
	}
}

// detachLocked takes the connection away from the session, whose mu is held:
// presence is told, the will is due, and the session ends or starts to wait.
func (t *turn) detachLocked(s *session, why string) {
	c := s.conn.Load()
	if c == nil {
		return
	}
	s.conn.Store(nil)
	s.giveBackLent()
	s.behind.Store(false)
	s.late.Store(false)
	t.b.connected.Add(-1)
	client := s.client
	s.events.push(func(p Presence) { p.Disconnected(client, why) })
	t.tell = append(t.tell, s)
	t.b.log.Debug("client disconnected", "client", s.id, "reason", why)

	if s.will != nil {
		if s.will.delay == 0 || s.expiry == 0 {
			t.fireLocked(s)
		} else {
			s.will.fires = t.now + int64(min(s.will.delay, s.expiry))*int64(time.Second)
			t.b.timers.schedule(s.will.fires, s)
		}
	}
	s.waiting.Store(0)
	if s.expiry == 0 {
		t.endLocked(s)
		return
	}
	s.zeros = nil
	if s.expiry != forever {
		s.expires = t.now + int64(s.expiry)*int64(time.Second)
		t.b.timers.schedule(s.expires, s)
	}
	t.b.recordSession(t, s)
}

// endLocked ends the session, whose mu is held and which has no connection.
func (t *turn) endLocked(s *session) {
	if s.ended {
		return
	}
	s.ended = true
	if s.will != nil { // [MQTT-3.1.3-9] the delay ends with the session
		t.fireLocked(s)
	}
	t.b.unhold(s)
	t.b.index.removeSession(s)
	for sub := range s.subs.all() {
		t.b.giveBack(s, sub.filter)
	}
	t.b.forgetSession(t, s)
	t.b.removeSession(s)
	t.b.timers.forget(s)
	t.b.tellLeft(s)
	t.reroute(s)
	s.giveUpInbound()
	s.subs, s.window, s.queue, s.zeros, s.inbound = subscriptions{}, window{}, fifo{}, nil, nil
}

// reroute offers what the session leaves unacknowledged of shared
// subscriptions to their other members (MQTT 5 §4.8.2).
func (t *turn) reroute(s *session) {
	for id := s.window.first; id != 0; id = s.window.slots[id-1].next {
		if p := &s.window.slots[id-1]; p.group != nil && p.msg != nil && (p.qos == 1 || !p.sent && !p.dup) {
			t.b.timers.redeliver(p.pending)
		}
	}
	for _, p := range s.queue.items[s.queue.from:] {
		if p.group != nil {
			t.b.timers.redeliver(p)
		}
	}
}

// due does the due work of a session without connection.
func (t *turn) due(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.entering || s.conn.Load() != nil {
		return
	}
	if s.will != nil && s.will.fires != 0 && s.will.fires <= t.now {
		t.fireLocked(s)
		t.b.recordSession(t, s)
	}
	switch {
	case s.expiry == forever:
	case s.expires <= t.now:
		t.endLocked(s)
		return
	default:
		t.b.timers.schedule(s.expires, s)
	}
	if s.will != nil && s.will.fires != 0 {
		t.b.timers.schedule(s.will.fires, s)
	}
}

// allowedExpiry cuts a session expiry interval to our limit.
func (b *Broker) allowedExpiry(seconds uint32) uint32 {
	return uint32(min(int64(seconds), int64(b.options.Limits.SessionExpiry/time.Second)))
}

// A teller tells the presence about one session's clients, in order, without
// a lock held.
type teller struct {
	mu       sync.Mutex
	idle     *sync.Cond // nil before anybody has waited
	presence Presence
	queue    []func(Presence)
	busy     bool
}

func (e *teller) push(event func(Presence)) {
	if e.presence == nil {
		return
	}
	e.mu.Lock()
	e.queue = append(e.queue, event)
	e.mu.Unlock()
}

// drain tells the queued events, unless another goroutine does.
func (e *teller) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return
	}
	e.busy = true
	for len(e.queue) > 0 {
		event := e.queue[0]
		e.queue = e.queue[1:]
		e.mu.Unlock()
		event(e.presence)
		e.mu.Lock()
	}
	e.busy, e.queue = false, nil
	if e.idle != nil {
		e.idle.Broadcast()
	}
}

// told tells the queued events and returns when they are told.
func (e *teller) told() {
	if e.presence == nil {
		return
	}
	e.drain()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle == nil && e.busy {
		e.idle = sync.NewCond(&e.mu)
	}
	for e.busy {
		e.idle.Wait()
	}
}

// acknowledged handles PUBACK, PUBREC, PUBREL and PUBCOMP of the client.
func (t *turn) acknowledged(c *conn, typ packet.Type) error {
	s, a := c.session, &t.ack
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() != c {
		return errDetached
	}
	if typ == packet.PUBREL {
		t.released(c, s, a.PacketID)
		return nil
	}
	slot := s.window.get(a.PacketID)
	switch {
	case slot != nil && !slot.sent: // an identifier this connection has not been sent
		slot = nil
		fallthrough
	case slot == nil:
		if typ == packet.PUBREC && !a.Reason.Failed() {
			t.acks = packet.AppendAck(t.acks, c.version, packet.PUBREL, a.PacketID, packet.PacketIdentifierNotFound)
		}
		return nil
	case typ == packet.PUBACK && slot.state == awaitPuback,
		typ == packet.PUBCOMP && slot.state == awaitPubcomp,
		typ == packet.PUBREC && slot.state != awaitPuback && a.Reason.Failed():
		t.complete(s, a.PacketID, slot)
	case typ == packet.PUBREC && slot.state != awaitPuback:
		t.received(c, s, a.PacketID, slot)
	default:
		return &packet.Error{Reason: packet.ProtocolError, Text: typ.String() + " for a message of another QoS"}
	}
	if s.behind.Load() {
		t.pumpLocked(s, c)
	}
	return nil
}

// aPuback is the size of a PUBACK without a reason code.
const aPuback = 4

// pubacks takes the acknowledgements that b begins with, as far as they are the usual ones:
// of QoS 1, in their shortest form, for messages that wait for them. It returns their
// size. Whatever else there is, is left to packet.
func (t *turn) pubacks(c *conn, b []byte) (n int) {
	if len(b) < aPuback || b[0] != byte(packet.PUBACK)<<4 || c.phase.Load() != phaseOpen || c.trace.Load() != nil {
		return 0
	}
	t.packetAt, t.ack.Reason = 0, packet.Success
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() != c {
		return 0
	}
	for ; len(b)-n >= aPuback && b[n] == byte(packet.PUBACK)<<4 && b[n+1] == aPuback-2; n += aPuback {
		id := uint16(b[n+2])<<8 | uint16(b[n+3])
		slot := s.window.get(id)
		if slot == nil || !slot.sent || slot.state != awaitPuback {
			break
		}
		t.complete(s, id, slot)
	}
	if n > 0 && s.behind.Load() {
		t.pumpLocked(s, c)
	}
	return n
}

// complete forgets a message the client has taken over.
func (t *turn) complete(s *session, id uint16, slot *slot) {
	if slot.counted {
		s.credit++
	}
	s.repaid(id, t.ack.Reason)
	t.b.recordDone(t, s, slot.msg)
	s.window.remove(id)
}

// received: PUBREC came; from now on only PUBREL is sent again
// [MQTT-4.3.3-3] [MQTT-4.3.3-4] [MQTT-4.3.3-6].
func (t *turn) received(c *conn, s *session, id uint16, slot *slot) {
	if slot.state == awaitPubrec {
		slot.state = awaitPubcomp
		slot.ready = t.b.recordReleased(t, s, id, slot)
	}
	if t.b.stored(slot.ready) {
		t.acks = packet.AppendAck(t.acks, c.version, packet.PUBREL, id, packet.Success)
		return
	}
	t.owe(c, pendingAck{typ: packet.PUBREL, id: id, at: slot.ready})
}

// released: the client gives a QoS 2 identifier back [MQTT-4.3.3-11].
func (t *turn) released(c *conn, s *session, id uint16) {
	reason := packet.Success
	if here, ok := s.inbound[id]; ok {
		delete(s.inbound, id)
		if receipt := s.accepting[id]; receipt != nil {
			receipt.numbered.finish(0)
			delete(s.accepting, id)
		}
		if here {
			s.receiving.Add(-1)
		}
		if s.keeps() {
			t.b.recordInbound(t, s, id, false)
		}
	} else {
		reason = packet.PacketIdentifierNotFound
		s.sender.markSure(id)
	}
	t.answerLocked(c, s, pendingAck{typ: packet.PUBCOMP, id: id, reason: reason})
}
