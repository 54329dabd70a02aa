package sessions

import (
	"encoding/binary"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// Kinds of messages between bridges.
const (
	msgAsk      byte = iota + 1 // to the home of an id: who has it? The sender is about to
	msgHolder                   // the answer: node
	msgRegister                 // to the home: the sender has it since
	msgLeft                     // to the home: the sender has it no more
	msgBack                     // to the home: the sender was to have it, and node has it
	msgLost                     // of the home: another has it since a later time
	msgYield                    // to who has it: a client of the sender takes it over
	msgRefused                  // it is another principal's
	msgGone                     // it is not there, or ended; what the log says of that is at a position
	msgOffer                    // what it subscribed to
	msgReady                    // all bridges know that the sender subscribes to the same
	msgAbort                    // the sender cannot have it
	msgEcho                     // answer behind all you have published
	msgEchoed                   // the answer
	msgState                    // the session
	msgEnd
)

// A message is what one bridge says to another about a client id.
type message struct {
	kind  byte
	op    uint64 // number of the operation; of the bridge that asks
	id    broker.SessionID
	stamp int64          // since when somebody has it
	node  Node           // of holder, back and gone: who has it, if anybody
	party protocol.Party // of yield: who wants it
	clean bool           // of yield: it is to end
	epoch uint32         // of offer: that of its owner
	at    uint64         // of gone: a position of the log
	body  []byte         // of offer and state
}

// append encodes a message for one process of a bridge.
func (m *message) append(dst []byte, to uint64) []byte {
	dst = binary.AppendUvarint(dst, to)
	dst = binary.AppendUvarint(append(dst, m.kind), m.op)
	dst = appendText(appendText(dst, string(m.id.Space)), m.id.Client)
	switch m.kind {
	case msgAsk, msgRegister, msgLost:
		dst = binary.AppendVarint(dst, m.stamp)
	case msgHolder, msgBack:
		dst = binary.AppendVarint(appendNode(dst, m.node), m.stamp)
	case msgYield:
		dst = appendText(appendText(appendText(dst, string(m.party.Kind)), string(m.party.Space)), m.party.ID)
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

// parseMessage reads what append has written. Nothing of it refers to b.
func parseMessage(b []byte) (m message, to uint64, err error) {
	r := reader{b: b}
	to = r.uvarint()
	m.kind, m.op = r.byte(), r.uvarint()
	m.id = broker.SessionID{Space: protocol.SpaceID(r.bytes()), Client: string(r.bytes())}
	switch m.kind {
	case msgAsk, msgRegister, msgLost:
		m.stamp = r.varint()
	case msgHolder, msgBack:
		m.node, m.stamp = r.node(), r.varint()
	case msgYield:
		m.party = protocol.Party{Kind: protocol.Kind(r.bytes()), Space: protocol.SpaceID(r.bytes()), ID: string(r.bytes())}
		m.clean, m.stamp = r.byte() == 1, r.varint()
	case msgGone:
		m.at, m.node = r.uvarint(), r.node()
	case msgOffer:
		m.epoch = uint32(r.uvarint())
		fallthrough
	case msgState:
		m.body = append([]byte(nil), r.b...)
	}
	if r.bad || m.kind == 0 || m.kind >= msgEnd {
		return m, to, errMessage
	}
	return m, to, nil
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}
