package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/fields"
	"github.com/aibridge/aibridge/protocol"
)

// A moving says whether a session is on its way from one bridge to another.
type moving byte

const (
	staying  moving = iota
	arriving        // it has no client here yet: it may still be another bridge's
	leaving         // a client of another bridge takes it over, or may not
)

// An OfferResult says what became of a session that another bridge wants.
type OfferResult byte

// Results of [Broker.Offer].
const (
	OfferEnded   OfferResult = iota // there is none any more
	OfferRefused                    // it is another principal's
	Offered                         // it waits, until it is dropped or resumed
)

// Offer takes the client away from a session that a client of a party takes over
// by another bridge. It returns what that bridge has to know to make the session.
func (b *Broker) Offer(id SessionID, to protocol.Party, clean bool) ([]byte, OfferResult) {
	s := b.session(id)
	if s == nil {
		return nil, OfferEnded
	}
	s.claim.Lock()
	defer s.claim.Unlock()
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.mu.Lock()
	if s.principal.Party() != to {
		s.mu.Unlock()
		return nil, OfferRefused
	}
	old, client := s.conn.Load(), s.client
	if old != nil {
		t.detachLocked(s, "session takeover")
	}
	if clean {
		t.endLocked(s)
	}
	var offer []byte
	result := OfferEnded
	if !s.ended {
		s.moving, s.entering, result = leaving, true, Offered
		offer = b.encodeSession(s)
	}
	s.mu.Unlock()
	if old != nil {
		b.stats.disconnected(packet.SessionTakenOver)
		old.end(packet.SessionTakenOver, "", t.now)
		b.ended(old.client, packet.SessionTakenOver, "")
	}
	t.tellAll()
	if client != nil {
		t.settleWills(client)
	}
	return offer, result
}

// Expect makes a session as another bridge has offered it. It has no client, and
// none gets it before [Broker.Own]; what is published for it waits. known is
// called when all peers know what it subscribes to.
func (b *Broker) Expect(id SessionID, offer []byte, epoch uint32, known func()) error {
	var v storedSession
	if err := json.Unmarshal(offer, &v); err != nil || v.Principal == nil {
		return errors.Join(errRecord, err)
	}
	s := b.makeStored(id.Client, &v)
	s.moving, s.entering, s.epoch = arriving, true, epoch
	t := b.getTurn().begin()
	defer b.putTurn(t)
	if !b.admitArriving(s) {
		return errRecord
	}
	s.mu.Lock()
	for sub := range s.subs.all() {
		b.index.add(sub, nil)
	}
	if b.journal != nil {
		s.record = sessionRecord{b.journal.newSerial(), true}
		b.recordSession(t, s)
	}
	s.mu.Unlock()
	if b.index.peers == nil {
		known()
		return nil
	}
	b.index.peers.Announced(answererFunc(known))
	return nil
}

type answererFunc func()

func (f answererFunc) Answer(Outcome) { f() }

// admitArriving makes a session known under its id, unless there is one.
func (b *Broker) admitArriving(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.sessions[s.key()] != nil {
		return false
	}
	b.sessions[s.key()] = s
	return true
}

// Cut returns all that a session has which was offered. What comes later for it is
// not in that. It is not settled while peers have not answered for what its client
// published, or its Will is held back; the directory is told when that is over.
func (b *Broker) Cut(id SessionID) (state []byte, settled bool) {
	s := b.session(id)
	if s == nil {
		return nil, true
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.settleAccepting(s) || len(b.timers.firedOf(id)) > 0 {
		s.cutting = true
		return nil, false
	}
	s.cutting = false
	return b.encodeState(s), true
}

// tellSettled tells the directory that a session can be cut, if it waits for that.
func (b *Broker) tellSettled(s *session) {
	if b.options.Directory == nil {
		return
	}
	s.mu.Lock()
	cutting := s.cutting
	s.mu.Unlock()
	if cutting {
		b.options.Directory.Settled(s.key())
	}
}

const stateVersion = 1

// encodeState encodes what is owed to a session, as the records of a journal in
// which it has the serial 0.
func (b *Broker) encodeState(s *session) []byte {
	numbers := make(map[*message]uint64)
	dst := []byte{stateVersion}
	add := func(p *pending, id uint16) {
		if p.msg == nil || p.qos == 0 {
			return
		}
		number := numbers[p.msg]
		if number == 0 {
			number = uint64(len(numbers) + 1)
			numbers[p.msg] = number
			dst = appendMessageRecord(dst, number, p.msg, b.toStore(p.msg.expires))
			if p.msg.number != 0 {
				dst = binary.AppendUvarint(append(dst, recNumber), number)
				dst = binary.AppendUvarint(dst, p.msg.number)
			}
		}
		dst = appendOwedNumber(dst, 0, number, p, id)
	}
	for id := s.window.first; id != 0; id = s.window.slots[id-1].next {
		slot := &s.window.slots[id-1]
		add(&slot.pending, id)
		if slot.state == awaitPubcomp {
			dst = appendID(dst, recReleased, 0, id)
		}
	}
	for i := s.queue.from; i < len(s.queue.items); i++ {
		add(&s.queue.items[i], 0)
	}
	for id := range s.inbound {
		dst = appendID(dst, recInbound, 0, id)
	}
	dst = appendSender(dst, 0, &s.sender, s.sender.last)
	for _, k := range b.origins.of(s) {
		for i := range k.given {
			k.given[i].serial = 0
		}
		dst = appendAllGiven(dst, k, k.given)
	}
	return dst
}

// decodeState makes what another bridge encoded a session without subscriptions.
func (b *Broker) decodeState(state []byte) (_ *session, _ map[uint64]bool, had []*known, err error) {
	if len(state) == 0 || state[0] != stateVersion {
		return nil, nil, nil, errRecord
	}
	into := &restoredSession{session: new(session)}
	r := &restorer{b: b, sessions: map[uint64]*restoredSession{0: into}, messages: map[uint64]*message{}}
	in := fields.Of(state[1:])
	numbers := make(map[uint64]bool)
	for in.More() {
		switch in.Left[0] {
		case recNumber:
			in.Byte()
			m, number := r.messages[in.Uvarint()], in.Uvarint()
			if m == nil {
				return nil, nil, nil, errRecord
			}
			m.number, numbers[number] = number, true
		case recMessage, recOwed, recReleased, recInbound, recReceived, recDoubt, recKnown:
			if err := r.one(&in); err != nil {
				return nil, nil, nil, err
			}
		default:
			return nil, nil, nil, errRecord
		}
	}
	if in.Bad {
		return nil, nil, nil, errRecord
	}
	into.finish()
	for _, m := range r.messages {
		m.id = 0 // the journal here gives others
	}
	return into.session, numbers, r.known, nil
}

// Take has a session that is expected be what another bridge has cut: first all
// that it owed, then what has come here since. stored is called when it is in the
// journal.
func (b *Broker) Take(id SessionID, state []byte, stored func()) error {
	s := b.session(id)
	if s == nil {
		return errRecord
	}
	came, numbers, had, err := b.decodeState(state)
	if err != nil {
		return err
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	if b.journal != nil { // all of it gets into one group
		b.journal.hold.RLock()
		defer b.journal.hold.RUnlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.queue
	s.queue, s.window, s.inbound, s.sender = came.queue, came.window, came.inbound, came.sender
	s.sender.last = s.sender.recorded
	for _, number := range b.origins.came(s, had) {
		numbers[number] = true
	}
	for i := own.from; i < len(own.items); i++ {
		if p := &own.items[i]; p.msg.number == 0 || !numbers[p.msg.number] {
			s.queue.push(*p)
		}
		delete(numbers, own.items[i].msg.number)
	}
	s.had = numbers
	if b.journal == nil {
		stored()
		return nil
	}
	b.journal.recordWhole(t, s, stored)
	return nil
}

// recordWhole stores all of a session anew, whose mu is held, and calls stored
// when it is.
func (j *scribe) recordWhole(t *turn, s *session, stored func()) {
	j.b.recordSession(t, s)
	j.log(t, func(dst []byte) []byte {
		j.arrivals = append(j.arrivals, stored)
		dst = j.appendSession(dst, s, func(m *message) {
			if m.id == 0 {
				j.message++
				m.id = j.message
			}
		})
		for _, k := range j.b.origins.of(s) {
			dst = appendKnown(dst, k, k.given)
		}
		return dst
	})
}

// AllCame is told that all has come which was published before a session was taken.
func (b *Broker) AllCame(id SessionID) {
	if s := b.session(id); s != nil {
		s.mu.Lock()
		s.had = nil
		s.mu.Unlock()
	}
}

// Own has a session that has arrived be this bridge's.
func (b *Broker) Own(id SessionID) {
	b.turnOf(id, func(t *turn, s *session) {
		if s.moving != arriving {
			return
		}
		s.moving = staying
		s.held = true
		b.kept.add(s.owner, 0, 0) // it was admitted before
		t.waitLocked(s)
		b.recordSession(t, s)
	})
}

// waitLocked has a session, whose mu is held, wait for its client for as long as
// it is kept.
func (t *turn) waitLocked(s *session) {
	s.entering = false
	if s.expires == 0 {
		s.expires = t.now + seconds(s.expiry)
	}
	if s.expiry != forever {
		t.b.timers.schedule(s.expires, s)
	}
	if s.will != nil && s.will.fires != 0 {
		t.b.timers.schedule(s.will.fires, s)
	}
}

// Resume has a session that was offered wait for its client again.
func (b *Broker) Resume(id SessionID, epoch uint32) {
	b.turnOf(id, func(t *turn, s *session) {
		if s.moving != leaving || s.ended {
			return
		}
		s.moving, s.cutting, s.epoch = staying, false, epoch
		t.waitLocked(s)
		b.recordSession(t, s)
	})
}

// Drop forgets a session that lives on at another bridge, without an event of its end.
// Messages that a group gave it, and that did not move with it, go to other members.
func (b *Broker) Drop(id SessionID) {
	b.turnOf(id, func(t *turn, s *session) {
		if s.ended {
			return
		}
		s.ended = true
		s.giveUpInbound()
		b.unhold(s)
		b.index.removeSession(s)
		b.forgetSession(t, s)
		b.removeSession(s)
		b.timers.forget(s)
		if s.moving == staying {
			t.reroute(s)
		}
		s.will, s.subs, s.window, s.queue, s.zeros, s.inbound = nil, subscriptions{}, window{}, fifo{}, nil, nil
	})
}

// Supersede closes the connection of a client that has connected to another bridge
// since. A kept session stays: the log names the bridge that has it.
func (b *Broker) Supersede(id SessionID) { b.Disconnect(id, byte(packet.SessionTakenOver), "") }

// Quiesce waits until all messages whose publishing had begun are on their way to
// everybody that was known to want them.
func (b *Broker) Quiesce() {
	b.publishing.Lock()
	defer b.publishing.Unlock()
}
