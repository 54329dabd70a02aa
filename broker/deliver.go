package broker

import (
	"cmp"

	"github.com/aibridge/aibridge/broker/packet"
)

// A deliveryResult says what became of a message for one receiver. The results are in
// order: the highest one of all receivers is that of the message.
type deliveryResult byte

const (
	missed deliveryResult = iota // the receiver is not there, or gets no such message
	full                         // the queue of the receiver has no room for it
	waits                        // the message waits for a client that is away
	taken                        // the message is written, or queued for a connected client
)

// deliver sends the turn's message to everyone on its route. It returns the
// best that became of it and for how many connected sessions it was taken.
func (t *turn) deliver(r *route) (best deliveryResult, receivers int) {
	count := func(o deliveryResult) {
		best = max(best, o)
		if o == taken {
			receivers++
		}
	}
	if t.b.index.peers != nil {
		t.reached = t.reached[:0]
		t.b.publishing.RLock()
		defer t.b.publishing.RUnlock()
	}
	if t.b.index.peers != nil || t.msg.retain {
		// A subscriber since the lookup may be a session of a peer, and was answered
		// before this message was retained.
		r = t.routeOf(r.topic)
		t.enumerate()
	}
	if t.origin.number != 0 {
		t.deliverOriginal(r, &best, count)
		return best, receivers
	}
	for i := range r.targets {
		count(t.deliverTo(&r.targets[i]))
	}
	if t.b.index.peers != nil && !t.served(best) {
		if away := t.away(r); away != nil {
			t.deliverAway(r, away, count)
			t.sendAway(best, count)
			return best, receivers
		}
	}
	for i, g := range r.groups {
		count(t.deliverGroup(g, r.members[i]))
	}
	return best, receivers
}

// enumerate gives the turn's message its number among the bridges, before it is
// kept. One of QoS 0 needs it only if it is retained.
func (t *turn) enumerate() {
	if t.b.index.peers != nil && (t.msg.qos > 0 || t.msg.retain) && t.msg.number == 0 {
		t.msg.number = t.b.published.Add(1)
	}
}

func (t *turn) deliverTo(tg *target) deliveryResult {
	m := &t.msg
	if !tg.s.hears(m) {
		return missed
	}
	if tg.narrow {
		if tg = t.narrowed(tg); tg == nil {
			return missed
		}
	}
	qos, retainAs, ids := tg.qos, tg.retainAs, tg.ids
	if tg.noLocal && tg.s.sent(m) { // [MQTT-3.8.3-3]
		if !tg.others {
			return missed
		}
		qos, retainAs, ids = tg.forOwn()
	}
	retain := m.retain && retainAs // [MQTT-3.3.1-12] [MQTT-3.3.1-13]
	if m.qos < qos && !tg.s.upgrades {
		qos = m.qos
	}
	if qos == 0 { // [MQTT-3.8.4-8]
		return t.send(tg.s, retain, ids)
	}
	return t.owe12(tg.s, &pending{ids: ids, qos: qos, retain: retain})
}

// send delivers the turn's message at most once.
func (t *turn) send(s *session, retain bool, ids []uint32) deliveryResult {
	if s.late.Load() { // older messages wait: keep the order
		return t.sendLater(s, pending{ids: ids, retain: retain})
	}
	c := s.conn.Load()
	if c == nil {
		return missed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return missed
	}
	if c.out.size > t.b.options.Limits.OutboxBytes {
		t.count.dropped++
		c.dropped++
		return full
	}
	t.count.sent[0]++
	if len(ids) == 0 && c.aliasMax == 0 && !c.out.blocked && !t.own {
		f := t.frame(c.version, retain)
		if f == nil || len(f) > c.maxPacket { // complete without being sent
			return taken
		}
		c.out.share(f)
		c.noteOut(f)
	} else {
		f := frame{version: c.version, retain: retain, ids: ids}
		if !c.encode(&f, &t.msg, t.now) {
			return taken
		}
	}
	t.touch(c)
	return taken
}

// sendLater puts a QoS 0 message behind others.
func (t *turn) sendLater(s *session, p pending) deliveryResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.sendLaterLocked(s, p)
}

func (t *turn) sendLaterLocked(s *session, p pending) deliveryResult {
	c := s.conn.Load()
	if c == nil {
		return missed
	}
	if z := s.zeros; z != nil && z.bytes-z.freeBytes > t.b.options.Limits.OutboxBytes {
		t.count.dropped++
		s.dropped++
		return full
	}
	p.msg = t.keep()
	s.pushZero(p)
	s.late.Store(true)
	s.behind.Store(true)
	c.mu.Lock()
	t.touch(c) // those before it may have left meanwhile: the end of the turn tries again
	c.mu.Unlock()
	return taken
}

// frame returns the turn's message as a QoS 0 packet that all receivers of
// one version share, nil when its time is over. A packet that goes out as it
// came in is not encoded again.
func (t *turn) frame(version byte, retain bool) []byte {
	shape := 0
	if version == packet.V5 {
		shape = 1
	}
	if retain {
		shape += 2
	}
	if t.frames[shape] != nil {
		return t.frames[shape]
	}
	m := &t.msg
	if t.raw != nil && t.rawShape == shape {
		t.frames[shape] = t.raw
		return t.raw
	}
	f := frame{version: version, retain: retain}
	var ok bool
	if f.expiry, ok = m.left(t.now); !ok {
		return nil
	}
	body, props := f.size(m)
	b := f.append(t.space(body+5), m, body, props)
	t.shared = t.shared[:len(t.shared)+len(b)]
	t.frames[shape] = b
	return b
}

// encode appends the packet f of m to the outbox; conn.mu is held. It returns
// false, and appends nothing, when the packet is too large for the client
// [MQTT-3.1.2-24] or its time is over.
func (c *conn) encode(f *frame, m *message, now int64) bool {
	var ok bool
	if f.expiry, ok = m.left(now); !ok {
		return false
	}
	fresh := c.alias(f, m)
	body, props := f.size(m)
	n := 1 + packet.VarintLen(body) + body
	if n > c.maxPacket {
		if fresh {
			delete(c.outAlias, m.topic)
		}
		return false
	}
	p := c.out.room(n)
	*p = f.append(*p, m, body, props)
	c.noteOut((*p)[len(*p)-n:])
	return true
}

// alias uses a topic alias where the client takes them [MQTT-3.1.2-26]
// [MQTT-3.3.2-11]. fresh reports that this packet defines it.
func (c *conn) alias(f *frame, m *message) (fresh bool) {
	if c.aliasMax == 0 || len(m.topic) < 4 {
		return false
	}
	a, known := c.outAlias[m.topic]
	if !known {
		if len(c.outAlias) >= c.aliasMax {
			return false
		}
		if c.outAlias == nil {
			c.outAlias = make(map[string]uint16)
		}
		a = uint16(len(c.outAlias) + 1)
		c.outAlias[m.topic] = a
	}
	f.alias, f.bare = a, known
	return !known
}

// owe12 delivers the turn's message at least or exactly once. p lacks the
// message.
func (t *turn) owe12(s *session, p *pending) deliveryResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.owe12Locked(s, p)
}

func (t *turn) owe12Locked(s *session, p *pending) deliveryResult {
	if s.ended || p.group != nil && s.moving != staying { // or nobody could tell which of two bridges has it
		return missed
	}
	c := s.conn.Load()
	placed := waits
	if s.had != nil && s.had[t.msg.number] {
		return placed // it came with the session
	}
	if c != nil {
		placed = taken
	} else if t.b.full() {
		t.count.dropped++
		s.dropped++
		return full
	}
	if s.keeps() {
		p.msg = t.keep()
		if t.b.journal != nil && t.identifyFirst(s, c, p) {
			return placed
		}
	}
	if c != nil && s.queue.len() == 0 && s.window.unsent == 0 && t.transmit(s, c, p, &t.msg) {
		return taken
	}
	if p.msg == nil {
		p.msg = t.keep()
	}
	if !t.enqueue(s, c, p) {
		return full
	}
	if s.keeps() {
		t.b.recordOwed(t, s, p, 0)
	}
	return placed
}

// keep returns a copy of the turn's message that lasts, one for all receivers.
func (t *turn) keep() *message {
	if t.kept == nil {
		t.kept = t.msg.keep()
	}
	return t.kept
}

// enqueue puts p behind what waits already. When the queue is full a connected
// client loses its connection, so that it can come back to a session with
// nothing lost from the middle.
func (t *turn) enqueue(s *session, c *conn, p *pending) bool {
	if !s.hasRoom(&t.b.options.Limits, p.msg.size()) {
		t.count.dropped++
		s.dropped++
		if !s.full {
			s.full = true
			t.b.log.Warn("a session's queue is full: new messages for it are dropped until its client takes the waiting ones", "client", s.id, "messages", s.queue.len(), "bytes", s.queue.bytes)
		}
		if c != nil && s.room == nil {
			t.overwhelmed(s, c)
		}
		return false
	}
	s.queue.push(*p)
	if c != nil {
		s.behind.Store(true)
		c.mu.Lock()
		t.touch(c) // the end of the turn tries again
		c.mu.Unlock()
	}
	return true
}

// overwhelmed disconnects a client that does not keep up; session.mu is held.
func (t *turn) overwhelmed(s *session, c *conn) {
	const text = "too many messages are waiting for the client"
	t.detachLocked(s, text)
	t.b.stats.disconnected(packet.QuotaExceeded)
	c.end(packet.QuotaExceeded, text, t.now)
	t.b.ended(c.client, packet.QuotaExceeded, text)
}

// hasRoom reports whether a message of so many bytes may be queued; mu is held.
func (s *session) hasRoom(l *Limits, size int) bool {
	mostMessages, mostBytes := l.QueueMessages, l.QueueBytes
	if s.room != nil {
		mostMessages, mostBytes = cmp.Or(s.room.Messages, mostMessages), cmp.Or(s.room.Bytes, mostBytes)
	}
	waiting, bytes := s.queue.len()-s.queue.free, s.queue.bytes-s.queue.freeBytes
	return waiting < mostMessages && (waiting == 0 || bytes+size <= mostBytes)
}

// transmit sends p, whose content is m, if the client's Receive Maximum
// [MQTT-3.3.4-9] and its outbox leave room. session.mu is held.
func (t *turn) transmit(s *session, c *conn, p *pending, m *message) bool {
	if s.credit <= 0 || s.window.used >= 65535 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.out.size > t.b.options.Limits.OutboxBytes {
		return false
	}
	state := awaitPuback
	if p.qos == 2 {
		state = awaitPubrec
	}
	if p.group != nil && p.msg == nil {
		p.msg = t.keep() // may go to another member
	}
	id, slot := s.window.add(p, state)
	if p.qos == 1 && s.keeps() {
		t.b.recordOwed(t, s, p, id) // it is sent again under this one [MQTT-4.4.0-1]
	}
	f := frame{version: c.version, qos: p.qos, retain: p.retain, ids: p.ids, id: id}
	if !c.encode(&f, m, t.now) { // complete without being sent [MQTT-3.1.2-25]
		t.b.recordDone(t, s, p.msg)
		s.window.remove(id)
		return true
	}
	slot.sent, slot.counted = true, true
	s.credit--
	t.count.sent[p.qos]++
	t.touch(c)
	return true
}

// identifyFirst has the identifier of a QoS 2 message stored before it is
// sent, so that it is sent again under the same one whatever happens to the
// process. QoS 1 is sent at once: who may have seen it sees it again, see
// transmit.
func (t *turn) identifyFirst(s *session, c *conn, p *pending) (taken bool) {
	if p.qos != 2 || c == nil || s.queue.len() > 0 || s.window.used >= t.b.options.Limits.Inflight {
		return false
	}
	t.identify(s, p)
	s.behind.Store(true)
	return true
}

// identify gives a QoS 2 message its identifier, to be sent when that is stored.
func (t *turn) identify(s *session, p *pending) {
	id, slot := s.window.add(p, awaitPubrec)
	if s.window.unsent == 0 {
		s.window.unsent = id
	}
	if slot.ready = t.b.recordOwed(t, s, &slot.pending, id); slot.ready != 0 {
		t.b.journal.awaitSession(s)
	}
}

// pump sends what the session owes as far as its client lets it.
func (t *turn) pump(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conn.Load(); c != nil {
		t.pumpLocked(s, c)
	}
}

func (t *turn) pumpLocked(s *session, c *conn) {
	done := t.drainZeros(s, c)
	s.late.Store(!done)
	done = t.resend(s, c) && t.drain(s, c) && done
	s.behind.Store(!done)
	if done {
		c.late.caughtUp()
	}
}

// resend sends what an earlier connection left unacknowledged, in order and
// under the same identifiers [MQTT-4.4.0-1] [MQTT-4.6.0-1].
func (t *turn) resend(s *session, c *conn) bool {
	w := &s.window
	for w.unsent != 0 {
		id := w.unsent
		slot := &w.slots[id-1]
		if !t.b.stored(slot.ready) {
			return false
		}
		if slot.state == awaitPubcomp {
			c.add(t, packet.AppendAck(nil, c.version, packet.PUBREL, id, packet.Success))
		} else if !t.repeat(s, c, id, slot) {
			return false
		} else if w.unsent != id { // was dropped
			continue
		}
		slot.sent = true
		w.unsent = slot.next
	}
	return true
}

func (t *turn) repeat(s *session, c *conn, id uint16, slot *slot) bool {
	if s.credit <= 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.out.size > t.b.options.Limits.OutboxBytes {
		return false
	}
	f := frame{version: c.version, qos: slot.qos, retain: slot.retain, ids: slot.ids, id: id, dup: slot.dup} // [MQTT-3.3.1-1]
	now := t.now
	if slot.dup {
		now = min(now, max(slot.msg.expires-1, 0)) // was sent before: its time does not end any more
	}
	if !c.encode(&f, slot.msg, now) {
		t.b.recordDone(t, s, slot.msg)
		s.window.remove(id)
		return true
	}
	slot.counted = true
	s.credit--
	t.count.sent[slot.qos]++
	t.touch(c)
	return true
}

// drainZeros sends QoS 0 messages that had to wait.
func (t *turn) drainZeros(s *session, c *conn) bool {
	for s.zeros.len() > 0 {
		if !t.sendQueued(c, s.zeros.peek()) {
			return false
		}
		s.zeros.pop()
	}
	return true
}

// drain sends from the queue.
func (t *turn) drain(s *session, c *conn) bool {
	for s.queue.len() > 0 {
		p := s.queue.peek()
		switch {
		case t.b.journal != nil && p.qos == 2 && s.keeps():
			if s.window.used >= t.b.options.Limits.Inflight {
				return false
			}
			t.identify(s, p)
			s.queue.pop()
			return t.resend(s, c) && t.drain(s, c)
		case !t.transmit(s, c, p, p.msg):
			return false
		}
		s.queue.pop()
	}
	return true
}

func (t *turn) sendQueued(c *conn, p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.out.size > t.b.options.Limits.OutboxBytes/2 {
		return false
	}
	f := frame{version: c.version, retain: p.retain, ids: p.ids}
	if c.encode(&f, p.msg, t.now) {
		t.count.sent[0]++
		t.touch(c)
	}
	return true
}
