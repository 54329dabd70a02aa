package sessions

import (
	"encoding/binary"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/fields"
	"github.com/aibridge/aibridge/protocol"
)

// Kinds of messages between bridges.
const (
	msgAsk      byte = iota + 1 // to the home of an id: the sender is about to have it, and asks for the holder
	msgHolder                   // the answer: node
	msgRegister                 // to the home: the sender has it since
	msgLeft                     // to the home: the sender has it no more
	msgBack                     // to the home: the sender was to have it, and node has it
	msgLost                     // of the home: another has it since a later time
	msgYield                    // to the holder: a client of the sender takes it over
	msgRefused                  // it is another principal's
	msgGone                     // it is not there, or ended; the log has that up to a position
	msgOffer                    // its subscriptions
	msgReady                    // all bridges know these subscriptions of the sender
	msgAbort                    // the sender cannot have it
	msgEcho                     // answer behind all you have published
	msgEchoed                   // the answer
	msgState                    // the session
	msgEnd
)

// A message is a message between two bridges about a client id.
type message struct {
	kind  byte
	op    uint64 // number of the operation; of the bridge that asks
	id    broker.SessionID
	stamp int64          // time since which a bridge has it
	node  Node           // of holder, back and gone: the bridge that has it, if any
	party protocol.Party // of yield: the principal of the client
	clean bool           // of yield: it is to end
	epoch uint32         // of offer: that of its owner
	at    uint64         // of gone: a position of the log
	body  []byte         // of offer and state
}

// isBehind reports whether the message is to arrive behind all that its sender has
// published: it says so itself, or gives a session away whose client publishes elsewhere
// from then on. All others overtake publications that wait.
func (m *message) isBehind() bool {
	switch m.kind {
	case msgGone, msgOffer, msgEchoed, msgState:
		return true
	}
	return false
}

// append encodes a message for one process of a bridge.
func (m *message) append(dst []byte, to uint64) []byte {
	dst = binary.AppendUvarint(dst, to)
	dst = binary.AppendUvarint(append(dst, m.kind), m.op)
	dst = fields.AppendText(fields.AppendText(dst, m.id.Space), m.id.Client)
	switch m.kind {
	case msgAsk, msgRegister, msgLost:
		dst = binary.AppendVarint(dst, m.stamp)
	case msgHolder, msgBack:
		dst = binary.AppendVarint(appendNode(dst, m.node), m.stamp)
	case msgYield:
		dst = fields.AppendText(fields.AppendText(fields.AppendText(dst, m.party.Kind), m.party.Space), m.party.ID)
		dst = binary.AppendVarint(append(dst, boolByte(m.clean)), m.stamp)
	case msgGone:
		dst = appendNode(binary.AppendUvarint(dst, m.at), m.node)
	case msgOffer:
		dst = append(binary.AppendUvarint(dst, uint64(m.epoch)), m.body...)
	case msgState:
		dst = append(dst, m.body...)
	}
	return dst
}

// parseMessage parses the encoding of append. The result does not refer to b.
func parseMessage(b []byte) (m message, to uint64, err error) {
	r := reader{fields.Of(b)}
	to = r.Uvarint()
	m.kind, m.op = r.Byte(), r.Uvarint()
	m.id = broker.SessionID{Space: protocol.SpaceID(r.Text()), Client: r.Text()}
	switch m.kind {
	case msgAsk, msgRegister, msgLost:
		m.stamp = r.Varint()
	case msgHolder, msgBack:
		m.node, m.stamp = r.node(), r.Varint()
	case msgYield:
		m.party = protocol.Party{Kind: protocol.Kind(r.Text()), Space: protocol.SpaceID(r.Text()), ID: r.Text()}
		m.clean, m.stamp = r.Byte() == 1, r.Varint()
	case msgGone:
		m.at, m.node = r.Uvarint(), r.node()
	case msgOffer:
		m.epoch = uint32(r.Uvarint())
		fallthrough
	case msgState:
		m.body = append([]byte(nil), r.Left...)
	}
	if r.Bad || m.kind == 0 || m.kind >= msgEnd {
		return m, to, errMessage
	}
	return m, to, nil
}
