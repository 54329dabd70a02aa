package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/fields"
	"github.com/aibridge/aibridge/protocol"
)

// Kinds of log records. Sessions are named by a serial of their own, not by
// client id, so that nothing of an ended session reaches its successor.
const (
	recMessage  byte = iota + 1 // number, message
	recOwed                     // serial, number, packet id or 0, qos, retain, subscription ids
	recDone                     // serial, number: acknowledged, dropped or expired
	recReleased                 // serial, packet id: PUBREC came
	recInbound                  // serial, packet id: QoS 2 publish received
	recOutbound                 // serial, packet id: PUBREL came
	recReset                    // serial: what follows replaces what is known of it
	recMark                     // node, epoch, offset: up to where messages of a peer are here
	recNumber                   // number, publication's number; in states of sessions only
	recReceived                 // serial, number: receipts of publishes of QoS 2 are on record up to here
	recDoubt                    // serial, number, count, packet ids: repetitions of the client may be here under a higher number, but for these
	recKnown                    // space, client id, packet id, number, count, (serial, group): the receivers of a publication
)

// Prefixes of keyed values. The space follows, then NUL, which is in no name,
// then the client id or the topic.
const (
	keySession  = "s/"
	keyWill     = "w/"
	keyRetained = "r/"
)

func keyOfSession(id SessionID) string { return keySession + string(id.Space) + "\x00" + id.Client }

// keyOfWill has in it when the client connected, where directories count that: an
// earlier Will may still be on its way when the next one is recorded.
func keyOfWill(id SessionID, since int64) string {
	key := keyWill + string(id.Space) + "\x00" + id.Client // NUL is in neither
	if since == 0 {
		return key
	}
	return key + "\x00" + strconv.FormatInt(since, 10)
}

// A sessionRecord is the journal's record of a session.
type sessionRecord struct {
	serial uint64
	known  bool
}

// storedSession is the keyed value of a session.
type storedSession struct {
	Serial    uint64              `json:"serial"`
	Epoch     uint32              `json:"epoch,omitempty"` // of the ownership, in a cluster
	Principal *protocol.Principal `json:"principal"`
	Version   byte                `json:"version"`
	Listener  string              `json:"listener,omitempty"`
	Expiry    uint32              `json:"expiry"`
	Expires   int64               `json:"expires,omitempty"` // while no client is connected
	// Received is the number up to which receipts of publishes of QoS 2 are on record, of
	// a session that has received none the one with which it began. Later ones are in the log.
	Received uint64               `json:"received,omitempty"`
	Subs     []storedSubscription `json:"subs,omitempty"`
	Will     *storedWill          `json:"will,omitempty"`
}

type storedSubscription struct {
	Filter   string `json:"f"`
	ID       uint32 `json:"i,omitempty"`
	QoS      byte   `json:"q,omitempty"`
	NoLocal  bool   `json:"n,omitempty"`
	RetainAs bool   `json:"r,omitempty"`
}

type storedWill struct {
	Message []byte `json:"message"`
	Delay   uint32 `json:"delay,omitempty"`
	Life    uint32 `json:"life,omitempty"`
	Fires   int64  `json:"fires,omitempty"`
	Since   int64  `json:"since,omitempty"`
}

// recordSession stores what changed of a session that outlives its
// connection, and removes one that no longer does.
func (b *Broker) recordSession(t *turn, s *session) { // session.mu is held
	if b.journal == nil {
		return
	}
	if s.ended || !s.keeps() && !s.record.known {
		return
	}
	if !s.keeps() {
		b.forgetSession(t, s)
		return
	}
	if !s.record.known {
		s.record = sessionRecord{b.journal.newSerial(), true}
	}
	if value := b.encodeSession(s); value != nil {
		s.recordedAt = b.journal.put(t, keyOfSession(s.key()), value)
	}
}

// encodeSession is the keyed value of a session, whose mu is held.
func (b *Broker) encodeSession(s *session) []byte {
	v := storedSession{
		Serial: s.record.serial, Epoch: s.epoch, Principal: s.principal, Expiry: s.expiry, Expires: b.toStore(s.expires),
		Version: s.client.Version, Listener: s.client.Listener, Received: s.sender.recorded,
	}
	if s.conn.Load() != nil {
		v.Expires = 0
	}
	for sub := range s.subs.all() {
		v.Subs = append(v.Subs, sub.toStore())
	}
	if w := s.will; w != nil {
		v.Will = &storedWill{appendMessage(nil, w.msg, 0), w.delay, w.life, b.toStore(w.fires), w.since}
	}
	value, err := json.Marshal(v)
	if err != nil {
		b.log.Error("session can't be stored", "client", s.id, "error", err)
		return nil
	}
	return value
}

func (sub *subscription) toStore() storedSubscription {
	return storedSubscription{sub.filter, sub.id, sub.qos, sub.noLocal, sub.retainAs}
}

// storedLastWill is the keyed value of the Will of a session that ends with its
// connection. Others are in the records of their sessions.
type storedLastWill struct {
	Principal *protocol.Principal `json:"principal"`
	Version   byte                `json:"version"`
	Listener  string              `json:"listener,omitempty"`
	Will      storedWill          `json:"will"`
}

// recordWill stores a Will that no session's record has, so that it is published by
// whoever restores the journal if the process ends first.
func (b *Broker) recordWill(t *turn, s *session, w *will) { // session.mu is held
	if b.journal == nil {
		return
	}
	value, err := json.Marshal(storedLastWill{
		Principal: s.principal, Version: s.client.Version, Listener: s.client.Listener,
		Will: storedWill{Message: appendMessage(nil, w.msg, 0), Life: w.life, Since: w.since},
	})
	if err != nil {
		b.log.Error("will can't be stored", "client", s.id, "error", err)
		return
	}
	w.record = keyOfWill(s.key(), w.since)
	b.journal.put(t, w.record, value)
}

// forgetWill removes the record of a Will that is published, or will not be.
func (t *turn) forgetWill(w *will) {
	if w != nil && w.record != "" {
		t.b.journal.put(t, w.record, nil)
	}
}

func (j *scribe) newSerial() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.serial++
	return j.serial
}

// forgetSession removes the records of a session.
func (b *Broker) forgetSession(t *turn, s *session) {
	if b.journal == nil || !s.record.known {
		return
	}
	b.journal.put(t, keyOfSession(s.key()), nil)
	s.record = sessionRecord{}
}

// recordRetained stores a retained message, or that it is gone.
func (t *turn) recordRetained(m *message) {
	b := t.b
	if b.shared != nil && !m.here {
		b.shared.expect(keyOfRetained(m))
		t.toShare = m
		return
	}
	if b.journal == nil {
		return
	}
	var value []byte
	if len(m.payload) > 0 {
		value = appendMessage(nil, m, b.toStore(m.expires))
	}
	b.journal.put(t, keyOfRetained(m), value)
}

// recordAgain stores what became of a retained message by itself. In the log of
// a cluster that happens by itself too.
func (t *turn) recordAgain(m *message) {
	if t.b.shared == nil || m.here {
		t.recordRetained(m)
	}
}

func keyOfRetained(m *message) string {
	if space := m.to.space; space != "" {
		return keyRetained + string(space) + "\x00" + m.topic // NUL is in neither
	}
	return keyRetained + m.topic
}

// topicOfRetained is the topic in a key of keyOfRetained.
func topicOfRetained(key string) string {
	if _, name, ok := strings.Cut(key, "\x00"); ok {
		return name
	}
	return strings.TrimPrefix(key, keyRetained)
}

// recordOwed stores that a session is owed p, under a packet identifier if it
// has one, and returns the position. A message in a queue gets its identifier
// by a second record when it is sent.
func (b *Broker) recordOwed(t *turn, s *session, p *pending, id uint16) uint64 {
	if b.journal == nil || !s.record.known {
		return 0
	}
	m := p.msg
	at := b.journal.log(t, func(dst []byte) []byte {
		if m.id == 0 {
			b.journal.message++
			m.id = b.journal.message
			dst = b.journal.appendBody(dst, m)
		} else if m.logged != b.journal.checked { // a checkpoint may have trimmed it
			dst = b.journal.appendBody(dst, m)
		}
		return appendOwed(dst, s.record.serial, p, id)
	})
	s.recordedAt = at
	return at
}

// recordDone stores that a session is no longer owed m.
func (b *Broker) recordDone(t *turn, s *session, m *message) {
	if b.journal == nil || !s.record.known || m == nil || m.id == 0 {
		return
	}
	b.journal.log(t, func(dst []byte) []byte {
		dst = binary.AppendUvarint(append(dst, recDone), s.record.serial)
		return binary.AppendUvarint(dst, m.id)
	})
}

// recordReleased stores that PUBREC came for a packet identifier and returns
// the position after which PUBREL may be sent.
func (b *Broker) recordReleased(t *turn, s *session, id uint16, slot *slot) uint64 {
	if b.journal == nil || !s.record.known {
		return 0
	}
	at := b.logID(t, s, recReleased, id)
	b.journal.awaitSession(s)
	return at
}

// recordInbound stores that a QoS 2 identifier of the client is in use, or not
// any more, and returns the position.
func (b *Broker) recordInbound(t *turn, s *session, id uint16, used bool) uint64 {
	if b.journal == nil || !s.record.known {
		return 0
	}
	kind := recInbound
	if !used {
		kind = recOutbound
	}
	s.recordedAt = b.journal.log(t, func(dst []byte) []byte {
		dst = appendID(dst, kind, s.record.serial, id)
		if used && s.sender.recorded != 0 {
			dst = appendReceived(dst, s.record.serial, s.sender.recorded)
		}
		return dst
	})
	return s.recordedAt
}

func appendReceived(dst []byte, serial, number uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(append(dst, recReceived), serial), number)
}

// appendSender appends a session's knowledge of its client's publishes: the number
// up to which receipts are on record, and the doubts of a restored session.
func appendSender(dst []byte, serial uint64, o *senderState, recorded uint64) []byte {
	if recorded != 0 {
		dst = appendReceived(dst, serial, recorded)
	}
	if o.doubtful {
		dst = binary.AppendUvarint(binary.AppendUvarint(append(dst, recDoubt), serial), o.after)
		dst = binary.AppendUvarint(dst, uint64(len(o.sure)))
		for id := range o.sure {
			dst = binary.AppendUvarint(dst, uint64(id))
		}
	}
	return dst
}

func (b *Broker) logID(t *turn, s *session, kind byte, id uint16) uint64 {
	return b.journal.log(t, func(dst []byte) []byte {
		return appendID(dst, kind, s.record.serial, id)
	})
}

func appendID(dst []byte, kind byte, serial uint64, id uint16) []byte {
	dst = binary.AppendUvarint(append(dst, kind), serial)
	return binary.AppendUvarint(dst, uint64(id))
}

// appendBody appends the message itself, which this generation of the log has
// from then on; mu is held.
func (j *scribe) appendBody(dst []byte, m *message) []byte {
	m.logged = j.checked
	return appendMessageRecord(dst, m.id, m, j.b.toStore(m.expires))
}

// appendMessageRecord appends a message that expires at a time of the calendar.
func appendMessageRecord(dst []byte, number uint64, m *message, expires int64) []byte {
	dst = binary.AppendUvarint(append(dst, recMessage), number)
	body := appendMessage(nil, m, expires)
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	return append(dst, body...)
}

func appendOwed(dst []byte, serial uint64, p *pending, id uint16) []byte {
	return appendOwedNumber(dst, serial, p.msg.id, p, id)
}

// appendOwedNumber appends that a message is owed which has a number in the log.
func appendOwedNumber(dst []byte, serial, number uint64, p *pending, id uint16) []byte {
	dst = binary.AppendUvarint(append(dst, recOwed), serial)
	dst = binary.AppendUvarint(dst, number)
	dst = binary.AppendUvarint(dst, uint64(id))
	dst = append(dst, flags(p.qos, p.retain))
	dst = binary.AppendUvarint(dst, uint64(len(p.ids)))
	for _, v := range p.ids {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return dst
}

func flags(qos byte, retain bool) byte {
	if retain {
		qos |= 4
	}
	return qos
}

// appendMessage encodes a message that expires at a time of the calendar.
func appendMessage(dst []byte, m *message, expires int64) []byte {
	f := flags(m.qos, m.retain)
	space := m.to.space
	if space != "" {
		f |= hasSpace
	}
	if m.owner != "" {
		f |= hasOwner
	}
	dst = binary.AppendVarint(append(dst, f), expires)
	for _, part := range [][]byte{[]byte(m.topic), []byte(m.from), m.props} {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	if space != "" {
		dst = fields.AppendText(dst, space)
	}
	if m.owner != "" {
		dst = fields.AppendText(dst, m.owner)
	}
	return append(dst, m.payload...)
}

// Marks of messages that are for everybody in a space, and that somebody had
// retained. Others are for nobody but the sessions that are owed them; and what
// earlier bridges retained without a mark is the default space's.
const (
	hasSpace = 8
	hasOwner = 16
)

var errRecord = errors.New("broker: journal record is damaged")

// parseMessage decodes what appendMessage wrote, into memory of its own. When
// it expires is told by the calendar.
func parseMessage(b []byte) (*message, error) { return new(messageParser).message(b, "") }

// A messageParser decodes many messages, which share the strings that are likely to be the same.
type messageParser struct{ texts map[string]string }

// message is parseMessage, where the topic may be known, as a string that is kept anyway.
func (p *messageParser) message(b []byte, name string) (*message, error) {
	r := fields.Of(b)
	f := r.Byte()
	m := message{qos: f & 3, retain: f&4 != 0, expires: r.Varint(), topic: name}
	if is := r.Bytes(); string(is) != name {
		m.topic = string(is)
	}
	m.from = p.text(r.Bytes())
	m.props = r.Bytes()
	if f&hasSpace != 0 {
		m.to = everybody(protocol.SpaceID(p.text(r.Bytes())))
	}
	if f&hasOwner != 0 {
		m.owner = p.text(r.Bytes())
	}
	m.payload = r.Left
	if r.Bad {
		return nil, errRecord
	}
	return m.keep(), nil
}

// text is a string of these bytes.
func (p *messageParser) text(b []byte) string {
	const most = 4096
	if s, ok := p.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if p.texts == nil || len(p.texts) >= most {
		p.texts = make(map[string]string)
	}
	p.texts[s] = s
	return s
}

func seconds(n uint32) int64 { return int64(n) * int64(time.Second) }
