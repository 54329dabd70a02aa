package broker

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A message is an application message inside the broker. One made for a turn
// refers to the read buffer; keep makes one that lasts.
type message struct {
	topic   string
	payload []byte
	props   []byte // encoded, without message expiry, topic alias and subscription identifiers
	qos     byte
	retain  bool
	here    bool     // for nobody but clients of this bridge
	expires int64    // steady time, 0 never
	from    string   // id of the client that published it, "" for the bridge
	to      audience // whose clients may get it
	owner   string   // party that had it retained, "" for the bridge and for messages not retained

	number uint64 // of the publication, the same at all bridges; 0 where nobody needs one
	id     uint64 // in the journal, 0 while it is not there
	logged uint64 // generation of the journal's log that has it, 0 for none
}

// size is the weight of the message in queues, in bytes.
func (m *message) size() int { return len(m.topic) + len(m.payload) + len(m.props) }

// keep returns a copy that does not refer to the read buffer, nor to the turn.
func (m *message) keep() *message {
	k := *m
	both := make([]byte, len(m.payload)+len(m.props))
	n := copy(both, m.payload)
	copy(both[n:], m.props)
	k.payload, k.props = both[:n:n], both[n:]
	if k.to.others != nil {
		others := *k.to.others
		k.to.others = &others
	}
	return &k
}

// left is the message expiry interval in seconds to send at a time, rounded
// up; ok is false when the time is over [MQTT-3.3.2-5] [MQTT-3.3.2-6].
func (m *message) left(now int64) (seconds uint32, ok bool) {
	if m.expires == 0 {
		return 0, true
	}
	d := m.expires - now
	if d <= 0 {
		return 0, false
	}
	return uint32((d + int64(time.Second) - 1) / int64(time.Second)), true
}

// A frame says how one delivery of a message looks on the wire.
type frame struct {
	version byte
	qos     byte
	retain  bool
	dup     bool
	id      uint16 // packet identifier
	alias   uint16 // topic alias, 0 none
	bare    bool   // the alias is known: leave the topic out
	expiry  uint32 // message expiry interval, 0 none
	ids     []uint32
}

// size returns the body and the property length of the packet.
func (f *frame) size(m *message) (body, props int) {
	body = 2 + len(m.payload)
	if !f.bare {
		body += len(m.topic)
	}
	if f.qos > 0 {
		body += 2
	}
	if f.version != packet.V5 {
		return body, 0
	}
	props = len(m.props)
	if f.expiry != 0 {
		props += 5
	}
	if f.alias != 0 {
		props += 3
	}
	for _, id := range f.ids {
		props += 1 + packet.VarintLen(int(id))
	}
	return body + packet.VarintLen(props) + props, props
}

// append encodes the PUBLISH whose size is given.
func (f *frame) append(dst []byte, m *message, body, props int) []byte {
	first := byte(packet.PUBLISH)<<4 | f.qos<<1
	if f.retain {
		first |= 1
	}
	if f.dup {
		first |= 8
	}
	dst = packet.AppendVarint(append(dst, first), body)
	if f.bare {
		dst = append(dst, 0, 0)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.topic)))
		dst = append(dst, m.topic...)
	}
	if f.qos > 0 {
		dst = binary.BigEndian.AppendUint16(dst, f.id)
	}
	if f.version == packet.V5 {
		dst = packet.AppendVarint(dst, props)
		if f.expiry != 0 {
			dst = binary.BigEndian.AppendUint32(append(dst, byte(packet.MessageExpiry)), f.expiry)
		}
		dst = append(dst, m.props...)
		if f.alias != 0 {
			dst = binary.BigEndian.AppendUint16(append(dst, byte(packet.TopicAlias)), f.alias)
		}
		for _, id := range f.ids {
			dst = packet.AppendVarint(append(dst, byte(packet.SubscriptionID)), int(id))
		}
	}
	return append(dst, m.payload...)
}

// loadOwn makes what the bridge itself publishes the turn's message.
func (t *turn) loadOwn(to *protocol.Recipients, in *protocol.Message) {
	m := &t.msg
	t.to = *to
	*m = message{} // a literal would be made elsewhere and copied before it is in memory, which stalls
	m.topic, m.payload, m.qos, m.retain, m.here = in.Topic, in.Payload, in.QoS, in.Retain, in.View
	m.to = audienceOf(&t.to)
	t.fresh()
	if in.Expiry > 0 {
		m.expires = t.now + int64(in.Expiry)
	}
	b := t.propBytes[:0]
	if in.ContentType != "" {
		b = packet.AppendProperty(b, packet.ContentType, in.ContentType)
	}
	if in.ResponseTopic != "" {
		b = packet.AppendProperty(b, packet.ResponseTopic, in.ResponseTopic)
	}
	if in.CorrelationData != nil {
		b = packet.AppendProperty(b, packet.CorrelationData, in.CorrelationData)
	}
	for i := range in.UserProperties {
		u := &in.UserProperties[i]
		b = packet.AppendUserProperty(b, u.Key, u.Value)
	}
	t.propBytes = b
	if len(b) > 0 {
		m.props = b
	}
}

// bytesOf is the bytes of a string, which are only read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// show sets out from the turn's message.
func (t *turn) show(out *protocol.Message) {
	m, p := &t.msg, t.read
	users := out.UserProperties[:0]
	*out = protocol.Message{}
	out.Topic, out.Payload, out.QoS, out.Retain, out.UserProperties = m.topic, m.payload, m.qos, m.retain, users
	if seconds, _ := m.left(t.now); seconds > 0 {
		out.Expiry = time.Duration(seconds) * time.Second
	}
	if len(m.props) == 0 {
		return
	}
	if p == nil {
		p = &t.props
		_ = p.DecodeProperties(m.props) // was checked when it came in
	}
	out.ContentType = t.intern(p.Bytes(packet.ContentType))
	out.ResponseTopic = t.intern(p.Bytes(packet.ResponseTopic))
	out.CorrelationData = p.Bytes(packet.CorrelationData)
	if p.Has(packet.User) {
		for _, u := range p.User {
			out.UserProperties = append(out.UserProperties, protocol.UserProperty{Key: t.intern(u.Key), Value: string(u.Value)})
		}
	}
}

// intern makes a string that is likely to come again.
func (t *turn) intern(b []byte) string {
	const longest, most = 256, 4096
	if len(b) == 0 {
		return ""
	}
	if s, ok := t.strings[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > longest {
		return s
	}
	if t.strings == nil || len(t.strings) >= most {
		t.strings = make(map[string]string)
	}
	t.strings[s] = s
	return s
}
