package broker

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/internal/fields"
	"github.com/aibridge/aibridge/protocol"
)

// Ways in which the recipients of a message are told to peers.
const (
	toSpace = iota
	toParties
	toAdministrators
)

// hasNumber marks messages with the number of their publication, hasOrigin those
// with their origin, isAgain those that are repeated.
const (
	hasNumber = 8
	hasOrigin = 16
	isAgain   = 32
)

// encodeAway encodes the turn's message for [Arrival.Deliver]. It is not ok when
// the message's time is over.
func (t *turn) encodeAway() (_ []byte, ok bool) {
	m := &t.msg
	left := int64(0)
	if m.expires != 0 {
		if left = m.expires - t.now; left <= 0 {
			return nil, false
		}
	}
	f := flags(m.qos, m.retain)
	if m.number != 0 {
		f |= hasNumber
	}
	if t.origin.number != 0 {
		f |= hasOrigin
	}
	if t.origin.again {
		f |= isAgain
	}
	dst := append(t.encoded[:0], f)
	if m.number != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, m.number)
	}
	if o := &t.origin; o.number != 0 {
		after := o.after
		if o.id == 0 { // a bridge of an earlier release sends the number alone, and reads nothing here
			after = o.number + o.run
		}
		for _, v := range [...]uint64{uint64(o.id), o.number, o.settled, after} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	dst = binary.AppendUvarint(dst, uint64((left+int64(time.Millisecond)-1)/int64(time.Millisecond)))
	if parties, ok := m.to.parties(); ok {
		dst = append(dst, toParties)
		for _, p := range parties {
			dst = fields.AppendText(fields.AppendText(fields.AppendText(dst, p.Kind), p.Space), p.ID)
		}
	} else if space := m.to.space; space != "" {
		dst = fields.AppendText(append(dst, toSpace), space)
	} else {
		dst = append(dst, toAdministrators)
	}
	dst = fields.AppendText(fields.AppendText(dst, m.topic), m.from)
	dst = append(binary.AppendUvarint(dst, uint64(len(m.props))), m.props...)
	t.encoded = append(dst, m.payload...)
	return t.encoded, true
}

func party(r *fields.Reader) protocol.Party {
	return protocol.Party{Kind: protocol.Kind(r.Bytes()), Space: protocol.SpaceID(r.Bytes()), ID: string(r.Bytes())}
}

var errRelayed = errors.New("broker: a message of another bridge is malformed")

// decodeAway makes what another bridge encoded the turn's message. It refers to
// the bytes.
func (t *turn) decodeAway(encoded []byte) error {
	r := fields.Of(encoded)
	f := r.Byte()
	m := message{qos: f & 3, retain: f&4 != 0, here: true}
	if f&hasNumber != 0 {
		m.number = r.Fixed()
	}
	var o origin
	if f&hasOrigin != 0 {
		o = origin{id: uint16(r.Uvarint()), number: r.Uvarint(), settled: r.Uvarint(), after: r.Uvarint(), again: f&isAgain != 0}
		if o.id == 0 {
			o.run, o.after = o.after-o.number, 0
		}
	}
	left := r.Uvarint()
	switch r.Byte() {
	case toSpace:
		m.to = everybody(protocol.SpaceID(r.Bytes()))
	case toParties:
		either := protocol.Either(party(&r), party(&r))
		m.to = audienceOf(&either)
	case toAdministrators:
		m.to = administrators
	}
	name, from := r.Bytes(), r.Bytes()
	m.props = r.Bytes()
	m.payload = r.Left
	if r.Bad || m.qos > 2 || f > 63 || f&hasOrigin != 0 && m.qos == 0 || m.to.nobody() || !topic.ValidName(name) || !packet.ValidString(name) || left > uint64(forever)*1000 {
		return errRelayed
	}
	if err := t.props.DecodeProperties(m.props); err != nil {
		return errRelayed
	}
	if left > 0 {
		m.expires = t.now + int64(left)*int64(time.Millisecond)
	}
	m.topic, m.from = t.intern(name), t.intern(from)
	t.use(&m)
	t.origin = o
	return nil
}

// An Arrival is what came from a peer at one time. Either all that is to be
// stored of it is, with the mark up to where the peer's messages are, or
// nothing.
type Arrival struct {
	t    *turn
	from Mark
}

// A Mark is how far the messages of a run of another bridge have come.
type Mark struct {
	Node   string // the other bridge
	Epoch  uint64 // of its process
	Offset uint64 // in the stream of what it sends to this one
}

// Arrive begins to take what a peer sends. [Arrival.End] ends it; until then the
// journal waits.
func (b *Broker) Arrive(node string, epoch uint64) *Arrival {
	t := b.getTurn().begin()
	if b.journal != nil {
		b.journal.hold.RLock()
	}
	return &Arrival{t: t, from: Mark{Node: node, Epoch: epoch}}
}

// Deliver gives a message of a peer to a member of each of the groups and, unless
// it is only for them, to the other subscribers here. It goes no further. left are
// the groups of which nobody took it.
func (a *Arrival) Deliver(encoded []byte, groups []uint64, only bool) (_ Outcome, left []uint64, _ error) {
	t := a.t
	if err := t.decodeAway(encoded); err != nil {
		return Missed, nil, err
	}
	r := t.routeOf(t.msg.topic)
	if t.origin.number != 0 {
		t.know(a.from)
		defer t.noteGiven()
	}
	best := missed
	if !only {
		t.noteRetained(r, Process{a.from.Node, a.from.Epoch})
		for i := range r.targets {
			best = max(best, t.deliverOnce(&r.targets[i]))
		}
	}
	for _, id := range groups {
		became := t.deliverToGroup(r, id)
		if best = max(best, became); became < waits && t.msg.qos > 0 && !t.declinedBy(r, id) {
			left = append(left, id)
		}
	}
	switch best {
	case missed:
		return Missed, left, nil
	case full:
		return Full, left, nil
	}
	return Taken, left, nil
}

// deliverToGroup gives the turn's message to a member that a group has here.
func (t *turn) deliverToGroup(r *route, id uint64) deliveryResult {
	switch {
	case t.isProvided(id):
		return waits
	case t.origin.again: // another bridge may have given it to somebody
		return missed
	}
	for i, g := range r.groups {
		if g.id == id {
			return t.deliverShared(g, r.members[i])
		}
	}
	return missed
}

// End sends the messages that were taken up to an offset. It reports whether all
// of them that must be stored are; otherwise it calls then as soon as they are.
func (a *Arrival) End(offset uint64, then func()) (stored bool) {
	t, b := a.t, a.t.b
	if b.journal == nil {
		b.putTurn(t)
		return true
	}
	stored = t.recorded == 0
	if !stored {
		a.from.Offset = offset
		b.journal.mark(t, a.from, then)
	}
	b.journal.hold.RUnlock()
	b.putTurn(t)
	return stored
}

// Marked is up to where the messages of a run of another bridge are stored here,
// and 0 if none are.
func (b *Broker) Marked(node string, epoch uint64) uint64 {
	if b.journal == nil {
		return 0
	}
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	if m := b.journal.marks[node]; m.Epoch == epoch {
		return m.Offset
	}
	return 0
}

// mark notes how far the messages of a peer are stored with the present group.
func (j *scribe) mark(t *turn, m Mark, then func()) {
	j.log(t, func(dst []byte) []byte {
		j.marks[m.Node] = m
		j.arrivals = append(j.arrivals, then)
		return appendMark(dst, m)
	})
}

func appendMark(dst []byte, m Mark) []byte {
	dst = fields.AppendText(append(dst, recMark), m.Node)
	return binary.AppendUvarint(binary.AppendUvarint(dst, m.Epoch), m.Offset)
}

// Receipts that have all their answers.
type receipts struct {
	mu       sync.Mutex
	sessions []*session
	calls    []func() // of those for which no client waits
}

func (r *receipts) add(done *Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done.then != nil {
		r.calls = append(r.calls, done.then)
	} else if n := len(r.sessions); n == 0 || r.sessions[n-1] != done.s {
		r.sessions = append(r.sessions, done.s)
	}
}

func (r *receipts) take() (sessions []*session, calls []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions, calls = r.sessions, r.calls
	r.sessions, r.calls = nil, nil
	return sessions, calls
}
