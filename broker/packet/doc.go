// Package packet is the MQTT codec: every control packet of MQTT 5.0 and
// 3.1.1, decoded strictly and in place, encoded by appending.
//
// Decoding never allocates for the packet itself: byte slices in a decoded
// packet are views into the input and live as long as it does. A packet value
// may be reused for the next decode. Encoders append to a buffer of the
// caller and assume that what they are given is valid.
//
// Violations come back as [*Error] with the reason code that MQTT 5 wants the
// peer to be told. Normative statements are named where they are kept, as
// [MQTT-2.1.3-1].
package packet

import "fmt"

// The protocol levels of CONNECT.
const (
	V311 byte = 4
	V5   byte = 5
)

// BridgeBit is set in the protocol level of mosquitto's bridges at first. They
// come back without it when they are answered as clients of that level.
const BridgeBit byte = 0x80

// A Type is the kind of a control packet, the high nibble of its first byte.
type Type byte

// The control packets.
const (
	CONNECT     Type = 1
	CONNACK     Type = 2
	PUBLISH     Type = 3
	PUBACK      Type = 4
	PUBREC      Type = 5
	PUBREL      Type = 6
	PUBCOMP     Type = 7
	SUBSCRIBE   Type = 8
	SUBACK      Type = 9
	UNSUBSCRIBE Type = 10
	UNSUBACK    Type = 11
	PINGREQ     Type = 12
	PINGRESP    Type = 13
	DISCONNECT  Type = 14
	AUTH        Type = 15 // MQTT 5 only
)

func (t Type) String() string {
	names := [...]string{"reserved", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
		"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", byte(t))
}

// MaxRemaining is the largest remaining length MQTT can express.
const MaxRemaining = 268_435_455

// A Header is the fixed header of a control packet.
type Header struct {
	First     byte // type and flags
	Remaining int  // bytes that follow the header
}

// Type is the packet's type.
func (h Header) Type() Type { return Type(h.First >> 4) }

// Flags is the low nibble of the first byte.
func (h Header) Flags() byte { return h.First & 0x0F }

// ParseHeader reads the fixed header at the start of b. size is its length in
// bytes, 0 while b holds too little of it. It checks the flags that MQTT
// reserves and that the length is encoded minimally.
func ParseHeader(b []byte) (h Header, size int, err error) {
	if len(b) == 0 {
		return h, 0, nil
	}
	h.First = b[0]
	if err := checkFlags(h); err != nil {
		return h, 0, err
	}
	if len(b) == 1 {
		return h, 0, nil
	}
	if b[1] < 0x80 { // nearly all packets
		h.Remaining = int(b[1])
		return h, 2, nil
	}
	v, n := varint(b[1:])
	if n < 0 {
		return h, 0, malformed("remaining length")
	}
	if n == 0 {
		return h, 0, nil
	}
	h.Remaining = int(v)
	return h, 1 + n, nil
}

// checkFlags keeps [MQTT-2.1.3-1] and [MQTT-3.8.1-1], [MQTT-3.10.1-1],
// [MQTT-3.6.1-1]: reserved flags have their one allowed value.
func checkFlags(h Header) error {
	switch t := h.Type(); t {
	case PUBLISH:
		if h.Flags()&0x06 == 0x06 {
			return malformed("PUBLISH with QoS 3") // [MQTT-3.3.1-4]
		}
		if h.Flags()&0x0E == 0x08 {
			return malformed("PUBLISH with DUP and QoS 0") // [MQTT-3.3.1-2]
		}
	case PUBREL, SUBSCRIBE, UNSUBSCRIBE:
		if h.Flags() != 0x02 {
			return malformed(t.String() + " with reserved flags")
		}
	case 0:
		return malformed("reserved packet type")
	default:
		if h.Flags() != 0 {
			return malformed(t.String() + " with reserved flags")
		}
	}
	return nil
}

// varint reads a variable byte integer: n is its length, 0 when b ends too
// early and -1 when it is malformed [MQTT-1.5.5-1].
func varint(b []byte) (v uint32, n int) {
	for i := range 4 {
		if i >= len(b) {
			return 0, 0
		}
		v |= uint32(b[i]&0x7F) << (7 * i)
		if b[i] < 0x80 {
			if i > 0 && b[i] == 0 {
				return 0, -1
			}
			return v, i + 1
		}
	}
	return 0, -1
}

// AppendVarint appends v, at most [MaxRemaining], as a variable byte integer.
func AppendVarint(dst []byte, v int) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// VarintLen is the number of bytes AppendVarint writes.
func VarintLen(v int) int {
	switch {
	case v < 1<<7:
		return 1
	case v < 1<<14:
		return 2
	case v < 1<<21:
		return 3
	}
	return 4
}
