package packet

import (
	"encoding/binary"
	"math/bits"
)

// A PropertyID identifies an MQTT 5 property.
type PropertyID byte

// The properties of MQTT 5 §2.2.2.2.
const (
	PayloadFormat       PropertyID = 0x01
	MessageExpiry       PropertyID = 0x02
	ContentType         PropertyID = 0x03
	ResponseTopic       PropertyID = 0x08
	CorrelationData     PropertyID = 0x09
	SubscriptionID      PropertyID = 0x0B
	SessionExpiry       PropertyID = 0x11
	AssignedClientID    PropertyID = 0x12
	ServerKeepAlive     PropertyID = 0x13
	AuthMethod          PropertyID = 0x15
	AuthData            PropertyID = 0x16
	RequestProblemInfo  PropertyID = 0x17
	WillDelay           PropertyID = 0x18
	RequestResponseInfo PropertyID = 0x19
	ResponseInfo        PropertyID = 0x1A
	ServerReference     PropertyID = 0x1C
	ReasonString        PropertyID = 0x1F
	ReceiveMaximum      PropertyID = 0x21
	TopicAliasMaximum   PropertyID = 0x22
	TopicAlias          PropertyID = 0x23
	MaximumQoS          PropertyID = 0x24
	RetainAvailable     PropertyID = 0x25
	User                PropertyID = 0x26
	MaximumPacketSize   PropertyID = 0x27
	WildcardAvailable   PropertyID = 0x28
	SubscriptionIDs     PropertyID = 0x29 // "subscription identifiers available"
	SharedAvailable     PropertyID = 0x2A
	maxPropertyID                  = 0x2A
)

// A UserProperty is one name and value.
type UserProperty struct{ Key, Value []byte }

// Properties are the MQTT 5 properties of any packet. A field means something
// only while [Properties.Has] says it is there; [Properties.Reset] forgets all.
type Properties struct {
	set uint64

	u8  [8]byte
	u16 [4]uint16
	u32 [4]uint32
	raw [9][]byte

	SubscriptionIDs []uint32       // of PUBLISH in order, or the one of SUBSCRIBE
	User            []UserProperty // in order
}

// kinds of property values on the wire.
const (
	kindNone byte = iota
	kindByte
	kindU16
	kindU32
	kindVarint // subscription identifier only
	kindString
	kindBinary
	kindPair // user property only
)

// slots says, per property, its wire type and where the value is kept.
var slots = [maxPropertyID + 1]struct{ kind, at byte }{
	PayloadFormat: {kindByte, 0}, RequestProblemInfo: {kindByte, 1}, RequestResponseInfo: {kindByte, 2},
	MaximumQoS: {kindByte, 3}, RetainAvailable: {kindByte, 4}, WildcardAvailable: {kindByte, 5},
	SubscriptionIDs: {kindByte, 6}, SharedAvailable: {kindByte, 7},
	ServerKeepAlive: {kindU16, 0}, ReceiveMaximum: {kindU16, 1}, TopicAliasMaximum: {kindU16, 2}, TopicAlias: {kindU16, 3},
	MessageExpiry: {kindU32, 0}, SessionExpiry: {kindU32, 1}, WillDelay: {kindU32, 2}, MaximumPacketSize: {kindU32, 3},
	ContentType: {kindString, 0}, ResponseTopic: {kindString, 1}, AssignedClientID: {kindString, 2},
	AuthMethod: {kindString, 3}, ResponseInfo: {kindString, 4}, ServerReference: {kindString, 5}, ReasonString: {kindString, 6},
	CorrelationData: {kindBinary, 7}, AuthData: {kindBinary, 8},
	SubscriptionID: {kindVarint, 0}, User: {kindPair, 0},
}

func mask(ids ...PropertyID) (m uint64) {
	for _, id := range ids {
		m |= 1 << id
	}
	return m
}

// allowed says which properties each packet may carry [MQTT-2.2.2].
var (
	allowed = [16]uint64{
		CONNECT: mask(SessionExpiry, ReceiveMaximum, MaximumPacketSize, TopicAliasMaximum, RequestResponseInfo,
			RequestProblemInfo, User, AuthMethod, AuthData),
		CONNACK: mask(SessionExpiry, ReceiveMaximum, MaximumQoS, RetainAvailable, MaximumPacketSize, AssignedClientID,
			TopicAliasMaximum, ReasonString, User, WildcardAvailable, SubscriptionIDs, SharedAvailable, ServerKeepAlive,
			ResponseInfo, ServerReference, AuthMethod, AuthData),
		PUBLISH: mask(PayloadFormat, MessageExpiry, TopicAlias, ResponseTopic, CorrelationData, User, SubscriptionID, ContentType),
		PUBACK:  mask(ReasonString, User), PUBREC: mask(ReasonString, User),
		PUBREL: mask(ReasonString, User), PUBCOMP: mask(ReasonString, User),
		SUBSCRIBE: mask(SubscriptionID, User), SUBACK: mask(ReasonString, User),
		UNSUBSCRIBE: mask(User), UNSUBACK: mask(ReasonString, User),
		DISCONNECT: mask(SessionExpiry, ReasonString, User, ServerReference),
		AUTH:       mask(AuthMethod, AuthData, ReasonString, User),
	}
	allowedWill = mask(WillDelay, PayloadFormat, MessageExpiry, ContentType, ResponseTopic, CorrelationData, User)
)

// Has reports whether the property is there.
func (p *Properties) Has(id PropertyID) bool { return p.set&(1<<id) != 0 }

// Empty reports whether there are none.
func (p *Properties) Empty() bool { return p.set == 0 }

// Reset forgets all properties and keeps the memory.
func (p *Properties) Reset() {
	p.set, p.SubscriptionIDs, p.User = 0, p.SubscriptionIDs[:0], p.User[:0]
}

// Number returns a numeric property, or fallback when it is not there.
func (p *Properties) Number(id PropertyID, fallback uint32) uint32 {
	if !p.Has(id) {
		return fallback
	}
	switch at := slots[id].at; slots[id].kind {
	case kindByte:
		return uint32(p.u8[at])
	case kindU16:
		return uint32(p.u16[at])
	case kindU32:
		return p.u32[at]
	}
	return fallback
}

// Bytes returns a string or binary property, nil when it is not there.
func (p *Properties) Bytes(id PropertyID) []byte {
	if !p.Has(id) {
		return nil
	}
	return p.raw[slots[id].at]
}

// SetNumber sets a numeric property; v is cut to the property's width.
func (p *Properties) SetNumber(id PropertyID, v uint32) {
	switch at := slots[id].at; slots[id].kind {
	case kindByte:
		p.u8[at] = byte(v)
	case kindU16:
		p.u16[at] = uint16(v)
	case kindU32:
		p.u32[at] = v
	default:
		return
	}
	p.set |= 1 << id
}

// SetBytes sets a string or binary property.
func (p *Properties) SetBytes(id PropertyID, v []byte) {
	if k := slots[id].kind; k == kindString || k == kindBinary {
		p.raw[slots[id].at] = v
		p.set |= 1 << id
	}
}

// AddUser adds a user property.
func (p *Properties) AddUser(key, value []byte) {
	p.User = append(p.User, UserProperty{key, value})
	p.set |= 1 << User
}

// AddSubscriptionID adds a subscription identifier.
func (p *Properties) AddSubscriptionID(id uint32) {
	p.SubscriptionIDs = append(p.SubscriptionIDs, id)
	p.set |= 1 << SubscriptionID
}

// Drop removes a property.
func (p *Properties) Drop(id PropertyID) {
	p.set &^= 1 << id
	switch id {
	case User:
		p.User = p.User[:0]
	case SubscriptionID:
		p.SubscriptionIDs = p.SubscriptionIDs[:0]
	}
}

// decode reads the property length and the properties. It keeps the rules of
// MQTT 5 §2.2.2: none twice, none that the packet may not carry.
func (p *Properties) decode(r *reader, may uint64, t Type) {
	p.Reset()
	n := int(r.varint())
	if r.err != nil || n == 0 {
		return
	}
	if n > len(r.b) {
		r.fail(malformed("property length exceeds the packet"))
		return
	}
	in := reader{b: r.b[:n]}
	r.b = r.b[n:]
	for len(in.b) > 0 && in.err == nil {
		p.decodeOne(&in, may, t)
	}
	r.fail(in.err)
}

func (p *Properties) decodeOne(r *reader, may uint64, t Type) {
	v := r.varint()
	if r.err != nil {
		return
	}
	if v > maxPropertyID || slots[v].kind == kindNone {
		r.fail(malformed("unknown property"))
		return
	}
	id := PropertyID(v)
	if may&(1<<id) == 0 {
		r.fail(malformed("property does not belong to " + t.String()))
		return
	}
	if p.Has(id) && id != User && (id != SubscriptionID || t != PUBLISH) {
		r.fail(violation("property given twice"))
		return
	}
	p.set |= 1 << id
	switch at := slots[id].at; slots[id].kind {
	case kindByte:
		if p.u8[at] = r.byte(); p.u8[at] > 1 && r.err == nil {
			r.fail(violation("property is neither 0 nor 1"))
		}
	case kindU16:
		p.u16[at] = r.u16()
		p.checkZero(r, id, uint32(p.u16[at]))
	case kindU32:
		p.u32[at] = r.u32()
		p.checkZero(r, id, p.u32[at])
	case kindVarint:
		n := r.varint()
		if n == 0 && r.err == nil {
			r.fail(violation("subscription identifier 0"))
		}
		p.SubscriptionIDs = append(p.SubscriptionIDs, n)
	case kindString:
		p.raw[at] = r.string()
	case kindBinary:
		p.raw[at] = r.binary()
	case kindPair:
		key := r.string()
		p.User = append(p.User, UserProperty{key, r.string()})
	}
}

func (p *Properties) checkZero(r *reader, id PropertyID, v uint32) {
	if v != 0 || r.err != nil {
		return
	}
	switch id {
	case ReceiveMaximum:
		r.fail(violation("receive maximum 0"))
	case MaximumPacketSize:
		r.fail(violation("maximum packet size 0"))
	case TopicAlias:
		r.fail(&Error{TopicAliasInvalid, "topic alias 0"}) // [MQTT-3.3.2-8]
	}
}

// Size is the number of bytes the properties take, without their length.
func (p *Properties) Size() int {
	n := 0
	for left := p.set; left != 0; left &= left - 1 {
		id := PropertyID(bits.TrailingZeros64(left))
		switch at := slots[id].at; slots[id].kind {
		case kindByte:
			n += 2
		case kindU16:
			n += 3
		case kindU32:
			n += 5
		case kindString, kindBinary:
			n += 3 + len(p.raw[at])
		case kindVarint:
			for _, v := range p.SubscriptionIDs {
				n += 1 + VarintLen(int(v))
			}
		case kindPair:
			for _, u := range p.User {
				n += 5 + len(u.Key) + len(u.Value)
			}
		}
	}
	return n
}

// Append appends the properties without their length.
func (p *Properties) Append(dst []byte) []byte {
	for id, left := PropertyID(0), p.set; left != 0; id, left = id+1, left>>1 {
		if left&1 == 0 {
			continue
		}
		switch at := slots[id].at; slots[id].kind {
		case kindByte:
			dst = append(dst, byte(id), p.u8[at])
		case kindU16:
			dst = binary.BigEndian.AppendUint16(append(dst, byte(id)), p.u16[at])
		case kindU32:
			dst = binary.BigEndian.AppendUint32(append(dst, byte(id)), p.u32[at])
		case kindString, kindBinary:
			dst = appendString(append(dst, byte(id)), p.raw[at])
		case kindVarint:
			for _, v := range p.SubscriptionIDs {
				dst = AppendVarint(append(dst, byte(id)), int(v))
			}
		case kindPair:
			for _, u := range p.User {
				dst = appendString(appendString(append(dst, byte(id)), u.Key), u.Value)
			}
		}
	}
	return dst
}

// AppendProperty appends one property that is a string or binary, without the rest.
func AppendProperty[S string | []byte](dst []byte, id PropertyID, v S) []byte {
	return appendString(append(dst, byte(id)), v)
}

// AppendUserProperty appends one user property, without the rest.
func AppendUserProperty(dst []byte, key, value string) []byte {
	return appendString(AppendProperty(dst, User, key), value)
}

// DecodeProperties reads properties without their length, as [Properties.Append]
// wrote them for a PUBLISH.
func (p *Properties) DecodeProperties(b []byte) error {
	p.Reset()
	r := reader{b: b}
	for len(r.b) > 0 && r.err == nil {
		p.decodeOne(&r, allowed[PUBLISH], PUBLISH)
	}
	if r.err != nil {
		return r.err
	}
	return nil
}
