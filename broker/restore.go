package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/internal/fields"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A restorer rebuilds sessions from the journal.
type restorer struct {
	b        *Broker
	sessions map[uint64]*restoredSession // by serial
	messages map[uint64]*message
	serial   uint64
	message  uint64
	homeless []*message               // retained by bridges that did not say for whom
	old      map[SessionID]KeyedValue // of bridges that knew sessions by client id alone
	earlier  []earlierRetained        // what clients retained while this bridge worked alone
	owedEver int                      // how often the log says that something is owed for the first time
	known    []*known                 // publications that may be repeated
	parser   messageParser

	principals map[string]*protocol.Principal // of the last sessions, by what is stored of them
}

// mostPrincipals bounds restorer.principals.
const mostPrincipals = 1024

// A restoredSession is a session while its records are replayed. Each record
// takes constant time, and what is done takes no more room than what is owed.
type restoredSession struct {
	*session
	owed    []restoredOwed          // in order
	done    int                     // of these
	indexed int                     // how many of these are in the maps
	by      map[uint64]restoredList // not done, by message number
	sent    map[uint16]owedIndex    // not done, by packet identifier
	inbound map[uint16]bool
	sender  senderState
	whole   bool // it begins with all that was owed to it
}

// An owedIndex is where something stands in restoredSession.owed, counted from 1; 0
// is nowhere.
type owedIndex int32

// A restoredList is one message, as often as it is owed: the oldest first. All
// before unsent have a packet identifier.
type restoredList struct{ first, last, unsent owedIndex }

type restoredOwed struct {
	pending
	next     owedIndex // of the same message
	id       uint16
	released bool
	done     bool
}

// restore loads the journal before the broker serves.
func (b *Broker) restore(ctx context.Context) error {
	r := &restorer{b: b, sessions: map[uint64]*restoredSession{}, old: map[SessionID]KeyedValue{}, messages: map[uint64]*message{}}
	if err := b.journal.out.Load(ctx, r.keyed, r.entry); err != nil {
		return fmt.Errorf("broker: load journal: %w", err)
	}
	b.journal.serial, b.journal.message = r.serial, r.message
	for _, m := range r.messages {
		m.logged = b.journal.checked
	}
	r.migrate()
	b.earlier = r.earlier
	if err := r.restoredOurs(ctx); err != nil {
		return fmt.Errorf("broker: ask whose the sessions of the journal are: %w", err)
	}
	t := newTurn(b).begin()
	live := 0
	for _, s := range r.sessions {
		live += len(s.owed) - s.done
		s.finish()
		if b.index.peers != nil {
			s.session.sender.restored(b.leastNumber())
		}
		t.adopt(s.session)
		s.owed = nil // or all would be there twice
	}
	b.commit(t)
	for _, k := range r.known {
		b.origins.restore(k)
	}
	if r.owedEver > 0 {
		b.journal.kept = int(float64(b.journal.logged) * float64(live) / float64(r.owedEver))
	}
	return nil
}

// migrate writes anew what earlier bridges wrote without a space: sessions into
// that of their principals; what was retained into the default one, where
// everybody was at home, unless that has a newer message. The journal takes it
// whole, or not at all.
func (r *restorer) migrate() {
	t := newTurn(r.b).begin()
	for id, kv := range r.old {
		r.b.journal.put(t, kv.Key, nil)
		r.b.journal.put(t, keyOfSession(id), kv.Value)
	}
	for _, m := range r.homeless {
		if r.isShared(m) {
			m.to = everybody(protocol.DefaultSpace)
			r.earlier = append(r.earlier, earlierRetained{keyRetained + m.topic, m})
			continue
		}
		r.b.journal.put(t, keyRetained+m.topic, nil)
		m.to = everybody(protocol.DefaultSpace)
		if !r.b.retained.has(m) {
			r.b.retained.set(m, retainLimits{bytes: r.b.options.Limits.RetainedBytes}, t.recordRetained)
		}
	}
	r.b.commit(t)
}

func (r *restorer) keyed(key string, value []byte) error {
	switch {
	case strings.HasPrefix(key, keyRetained):
		m, err := r.parser.message(value, topicOfRetained(key))
		if err != nil {
			return fmt.Errorf("retained message %q: %w", key[len(keyRetained):], err)
		}
		m.expires = r.b.fromStore(m.expires, forever)
		m.here = r.b.shared != nil // or it would not be in the journal
		if m.to.nobody() {
			r.homeless = append(r.homeless, m)
			return nil
		}
		if r.isShared(m) {
			r.earlier = append(r.earlier, earlierRetained{key, m})
			return nil
		}
		r.b.retained.set(m, retainLimits{bytes: r.b.options.Limits.RetainedBytes}, func(*message) {})
	case strings.HasPrefix(key, keySession):
		return r.session(key, value)
	case strings.HasPrefix(key, keyWill):
		return r.lastWill(key, value)
	}
	return nil
}

// isShared reports whether a message is one that all bridges of the cluster keep:
// it is a client's.
func (r *restorer) isShared(m *message) bool { return m.from != "" && r.b.retainedByAll() != nil }

// lastWill has a Will published whose session ended with the process.
func (r *restorer) lastWill(key string, value []byte) error {
	_, id, _ := strings.Cut(key, "\x00")
	id, _, _ = strings.Cut(id, "\x00")
	var v storedLastWill
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("will of client %q: %w", id, err)
	}
	if v.Principal == nil {
		return fmt.Errorf("will of client %q: %w", id, errRecord)
	}
	m, err := parseMessage(v.Will.Message)
	if err != nil {
		return fmt.Errorf("will of client %q: %w", id, err)
	}
	client := NewClient(id, v.Principal)
	client.Listener, client.Version = v.Listener, v.Version
	r.b.timers.fire(client, &will{msg: m, life: v.Will.Life, since: v.Will.Since, record: key, again: true})
	return nil
}

func (r *restorer) session(key string, value []byte) error {
	_, id, known := strings.Cut(key, "\x00")
	if !known {
		id = key[len(keySession):]
	}
	v, err := r.stored(value)
	if err != nil {
		return fmt.Errorf("session %q: %w", id, err)
	}
	if !known {
		r.old[SessionID{v.Principal.Home(), id}] = KeyedValue{key, bytes.Clone(value)}
	}
	s := r.b.makeStored(id, v)
	s.record = sessionRecord{serial: v.Serial, known: true}
	if v.Will != nil {
		m, err := parseMessage(v.Will.Message)
		if err != nil {
			return fmt.Errorf("will of session %q: %w", id, err)
		}
		s.will = &will{msg: m, delay: v.Will.Delay, life: v.Will.Life, since: v.Will.Since, again: true, fires: r.b.fromStore(v.Will.Fires, v.Will.Delay)}
	}
	r.serial = max(r.serial, v.Serial)
	r.sessions[v.Serial] = &restoredSession{session: s}
	return nil
}

// stored reads the keyed value of a session. Most have the principal of another, which
// is read and kept once.
func (r *restorer) stored(value []byte) (*storedSession, error) {
	var v struct {
		storedSession
		Principal json.RawMessage `json:"principal"`
	}
	if err := records.Decode(value, &v); err != nil {
		return nil, err
	}
	if v.storedSession.Principal = r.principals[string(v.Principal)]; v.storedSession.Principal != nil {
		return &v.storedSession, nil
	}
	if err := records.Decode(v.Principal, &v.storedSession.Principal); err != nil {
		return nil, err
	}
	if v.storedSession.Principal == nil {
		return nil, errRecord
	}
	if len(r.principals) >= mostPrincipals {
		clear(r.principals)
	}
	if r.principals == nil {
		r.principals = make(map[string]*protocol.Principal)
	}
	r.principals[string(v.Principal)] = v.storedSession.Principal
	return &v.storedSession, nil
}

// makeStored makes a session of its keyed value, but for its Will.
func (b *Broker) makeStored(id string, v *storedSession) *session {
	s := b.newSession(id, v.Principal)
	s.client = NewClient(id, v.Principal)
	s.client.Listener, s.client.Version = v.Listener, v.Version
	s.expiry, s.expires, s.epoch = v.Expiry, b.fromStore(v.Expires, v.Expiry), v.Epoch
	s.sender.recorded, s.sender.last = v.Received, v.Received
	for _, sub := range v.Subs {
		s.subs.set(&subscription{
			session: s, filter: sub.Filter, where: b.conditionOf(sub.Filter), id: sub.ID, qos: sub.QoS, noLocal: sub.NoLocal, retainAs: sub.RetainAs,
		})
	}
	return s
}

// entry replays one log entry.
func (r *restorer) entry(seq uint64, entry []byte) error {
	r.b.journal.logged += len(entry) + entryCost
	in := fields.Of(entry)
	for in.More() {
		if err := r.one(&in); err != nil {
			return fmt.Errorf("log entry %d: %w", seq, err)
		}
	}
	if in.Bad {
		return fmt.Errorf("log entry %d: %w", seq, errRecord)
	}
	return nil
}

func (r *restorer) one(in *fields.Reader) error {
	kind := in.Byte()
	if kind == recMessage {
		id := in.Uvarint()
		m, err := r.parser.message(in.Bytes(), "")
		if err != nil {
			return err
		}
		m.id, m.expires = id, r.b.fromStore(m.expires, forever)
		r.messages[id] = m
		r.message = max(r.message, id)
		return nil
	}
	if kind == recMark {
		m := Mark{Node: string(in.Bytes()), Epoch: in.Uvarint(), Offset: in.Uvarint()}
		r.b.journal.marks[m.Node] = m
		return nil
	}
	if kind == recKnown {
		return r.knew(in)
	}
	serial := in.Uvarint()
	r.serial = max(r.serial, serial)
	s := r.sessions[serial] // nil: ended meanwhile
	switch kind {
	case recOwed:
		r.owed(s, in)
	case recDone:
		if number := in.Uvarint(); s != nil {
			s.finished(number)
		}
	case recReleased, recInbound, recOutbound:
		if id := uint16(in.Uvarint()); s != nil {
			s.identifier(kind, id)
		}
	case recReceived:
		if number := in.Uvarint(); s != nil {
			s.sender.recorded = number
		}
	case recDoubt:
		o := senderState{doubtful: true, after: in.Uvarint()}
		for n := in.Uvarint(); n > 0 && !in.Bad; n-- {
			o.markSure(uint16(in.Uvarint()))
		}
		if s != nil {
			o.recorded = s.sender.recorded
			s.sender = o
		}
	case recReset:
		if s != nil {
			*s = restoredSession{session: s.session, whole: true}
		}
	default:
		return errRecord
	}
	return nil
}

// knew replays the receivers of a publication.
func (r *restorer) knew(in *fields.Reader) error {
	space, client := protocol.SpaceID(in.Bytes()), string(in.Bytes())
	id, number := uint16(in.Uvarint()), in.Uvarint()
	k := &known{key: (&origin{id: id, number: number}).key(SessionID{space, client}), number: number}
	for n := in.Uvarint(); n > 0 && !in.Bad; n-- {
		serial, group := in.Uvarint(), in.Uvarint()
		if s := r.sessions[serial]; s != nil {
			k.given = append(k.given, given{s: s.session, group: group, serial: serial})
		}
	}
	if !in.Bad && len(k.given) > 0 {
		r.known = append(r.known, k)
	}
	return nil
}

func (r *restorer) owed(s *restoredSession, in *fields.Reader) {
	number, id, f := in.Uvarint(), uint16(in.Uvarint()), in.Byte()
	var ids []uint32
	for n := in.Uvarint(); n > 0 && !in.Bad; n-- {
		ids = append(ids, uint32(in.Uvarint()))
	}
	m := r.messages[number]
	if s == nil || m == nil || in.Bad {
		return
	}
	if s.owes(restoredOwed{pending: pending{msg: m, ids: ids, qos: f & 3, retain: f&4 != 0}, id: id}) {
		r.owedEver++
	}
}

// owes adds what is owed, or notes the identifier under which what was owed
// already has been sent. It reports whether it was the former.
func (s *restoredSession) owes(o restoredOwed) (added bool) {
	if o.id == 0 {
		s.owed = append(s.owed, o)
		return true
	}
	s.index()
	at := s.unsent(o.msg.id, o.qos)
	if added = at == 0; added {
		s.owed = append(s.owed, o)
		s.index()
		at = owedIndex(len(s.owed))
	}
	s.at(at).id = o.id
	s.sent[o.id] = at
	return added
}

func (s *restoredSession) at(p owedIndex) *restoredOwed { return &s.owed[p-1] }

// index brings the maps up to date. Most messages owed are never looked for.
func (s *restoredSession) index() {
	if s.by == nil {
		s.by, s.sent = make(map[uint64]restoredList), make(map[uint16]owedIndex)
	}
	for ; s.indexed < len(s.owed); s.indexed++ {
		at, o := owedIndex(s.indexed+1), &s.owed[s.indexed]
		list := s.by[o.msg.id]
		if list.first == 0 {
			list.first = at
		} else {
			s.at(list.last).next = at
		}
		if list.last = at; list.unsent == 0 && o.id == 0 {
			list.unsent = at
		}
		s.by[o.msg.id] = list
	}
}

// unsent is the place of the oldest owed copy of a message with a QoS that has no
// packet identifier, which it is about to get.
func (s *restoredSession) unsent(number uint64, qos byte) owedIndex {
	list := s.by[number]
	for list.unsent != 0 && s.at(list.unsent).id != 0 {
		list.unsent = s.at(list.unsent).next
		s.by[number] = list
	}
	at := list.unsent
	for at != 0 && (s.at(at).id != 0 || s.at(at).qos != qos) {
		at = s.at(at).next
	}
	return at
}

// finished notes that a message is not owed any more.
func (s *restoredSession) finished(number uint64) {
	s.index()
	list := s.by[number]
	if list.first == 0 {
		return
	}
	at := list.first
	o := s.at(at)
	if list.unsent == at {
		list.unsent = o.next
	}
	if list.first = o.next; list.first == 0 {
		delete(s.by, number)
	} else {
		s.by[number] = list
	}
	if s.sent[o.id] == at {
		delete(s.sent, o.id)
	}
	*o = restoredOwed{done: true}
	if s.done++; s.done > 32 && s.done > len(s.owed)/2 {
		s.compact()
	}
}

// compact drops the messages that are done, which moves the rest.
func (s *restoredSession) compact() {
	s.owed = slices.DeleteFunc(s.owed, func(o restoredOwed) bool { return o.done })
	s.done, s.indexed = 0, 0
	clear(s.by)
	clear(s.sent)
	for i := range s.owed {
		s.owed[i].next = 0
		if id := s.owed[i].id; id != 0 {
			s.sent[id] = owedIndex(i + 1)
		}
	}
}

func (s *restoredSession) identifier(kind byte, id uint16) {
	switch kind {
	case recInbound:
		if s.inbound == nil {
			s.inbound = make(map[uint16]bool)
		}
		s.inbound[id] = false
		s.sender.markSure(id)
	case recOutbound:
		delete(s.inbound, id)
		s.sender.markSure(id)
	case recReleased:
		if at := s.sent[id]; at != 0 {
			s.at(at).released = true
		}
	}
}

// finish puts the messages owed into the window and the queue.
func (s *restoredSession) finish() {
	s.sender.recorded = max(s.sender.recorded, s.session.sender.recorded)
	s.session.inbound, s.session.sender = s.inbound, s.sender
	waiting := len(s.owed) - s.done - len(s.sent)
	s.queue.items = make([]pending, 0, max(waiting, 0))
	for i := range s.owed {
		o := &s.owed[i]
		switch {
		case o.done:
		case o.id == 0, s.window.get(o.id) != nil:
			s.queue.push(o.pending)
		case o.qos == 1:
			s.window.restore(o.id, o.pending, awaitPuback)
		case o.released:
			s.window.restore(o.id, o.pending, awaitPubcomp)
		default:
			s.window.restore(o.id, o.pending, awaitPubrec)
		}
	}
}

// adopt makes a restored session known.
func (t *turn) adopt(s *session) {
	b := t.b
	for sub := range s.subs.all() {
		b.index.add(sub, nil)
	}
	s.held = true
	b.kept.add(s.owner, 0, 0) // it was admitted before
	b.mu.Lock()
	b.sessions[s.key()] = s
	b.mu.Unlock()
	if s.expires == 0 {
		s.expires = t.now + seconds(s.expiry)
	}
	if s.expiry != forever {
		b.timers.schedule(s.expires, s)
	}
	if s.will == nil {
		return
	}
	if s.will.fires == 0 { // the client was connected when the process ended
		s.will.fires = t.now + seconds(min(s.will.delay, s.expiry))
	}
	if b.isOneOfMany() && s.will.fires <= t.now { // or its client could move on before the timers look
		s.mu.Lock()
		defer s.mu.Unlock()
		t.fireLocked(s)
		b.recordSession(t, s)
		return
	}
	b.timers.schedule(s.will.fires, s)
}
