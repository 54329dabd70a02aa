package bench

import "encoding/binary"

// The part of MQTT that a load generator needs, written for it alone: the broker must
// not be measured with its own codec.

// First bytes of control packets.
const (
	packetConnack  = 0x20
	packetPublish  = 0x30
	packetPuback   = 0x40
	packetPubrec   = 0x50
	packetPubrel   = 0x62
	packetPubcomp  = 0x70
	packetSuback   = 0x90
	packetPingresp = 0xD0
	packetDisconn  = 0xE0
)

const version5 = 5

func appendVarint(dst []byte, n int) []byte {
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(dst, byte(n))
}

func appendText(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// appendPacket appends a control packet: first byte, length, body.
func appendPacket(dst []byte, first byte, body []byte) []byte {
	dst = append(dst, first)
	dst = appendVarint(dst, len(body))
	return append(dst, body...)
}

// connectPacket opens a clean session without keep-alive.
func connectPacket(version byte, clientID string, receiveMaximum uint16) []byte {
	body := appendText(nil, "MQTT")
	body = append(body, version, 0x02, 0, 0)
	if version == version5 {
		if receiveMaximum > 0 {
			body = append(body, 3, 0x21, byte(receiveMaximum>>8), byte(receiveMaximum))
		} else {
			body = append(body, 0)
		}
	}
	return appendPacket(nil, 0x10, appendText(body, clientID))
}

// keptConnectPacket opens a session of MQTT 5 that is kept for an hour, or goes on with it.
func keptConnectPacket(clientID string) []byte {
	body := append(appendText(nil, "MQTT"), version5, 0, 0, 0)
	body = append(body, 5, 0x11)
	body = binary.BigEndian.AppendUint32(body, 3600)
	return appendPacket(nil, 0x10, appendText(body, clientID))
}

// subscribePacket subscribes one filter with packet id 1.
func subscribePacket(version byte, filter string, qos byte) []byte {
	body := []byte{0, 1}
	if version == version5 {
		body = append(body, 0)
	}
	return appendPacket(nil, 0x82, append(appendText(body, filter), qos))
}

// A template is a PUBLISH encoded beforehand, of which only packet id and
// payload change.
type template struct {
	packet  []byte
	id      int // where the packet id is, 0 with QoS 0
	payload int // where the payload begins
}

// publishTemplate encodes a PUBLISH. Properties are those of MQTT 5, encoded,
// without their length.
func publishTemplate(version byte, topic string, qos byte, properties, payload []byte) template {
	body := appendText(nil, topic)
	var t template
	if qos > 0 {
		t.id = len(body)
		body = append(body, 0, 0)
	}
	if version == version5 {
		body = appendVarint(body, len(properties))
		body = append(body, properties...)
	}
	t.payload = len(body)
	body = append(body, payload...)
	t.packet = appendPacket(nil, packetPublish|qos<<1, body)
	header := len(t.packet) - len(body)
	if qos > 0 {
		t.id += header
	}
	t.payload += header
	return t
}

func (t *template) setID(id uint16) { binary.BigEndian.PutUint16(t.packet[t.id:], id) }

// A publication is a received PUBLISH, as views into the packet.
type publication struct {
	qos        byte
	id         uint16
	topic      []byte
	properties []byte // MQTT 5, without their length
	payload    []byte
}

// parsePublish takes a PUBLISH apart, trusting the broker as far as memory
// safety allows.
func parsePublish(version, first byte, body []byte) (p publication, ok bool) {
	p.qos = first >> 1 & 3
	p.topic, body, ok = cutText(body)
	if !ok {
		return p, false
	}
	if p.qos > 0 {
		if len(body) < 2 {
			return p, false
		}
		p.id, body = binary.BigEndian.Uint16(body), body[2:]
	}
	if version == version5 {
		if p.properties, body, ok = cutProperties(body); !ok {
			return p, false
		}
	}
	p.payload = body
	return p, true
}

func cutText(b []byte) (text, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}

func cutProperties(b []byte) (properties, rest []byte, ok bool) {
	n, size := readVarint(b)
	if size <= 0 || len(b) < size+n {
		return nil, nil, false
	}
	return b[size : size+n], b[size+n:], true
}

// readVarint is a variable byte integer and its length, 0 if b is too short
// for it and -1 if it is malformed.
func readVarint(b []byte) (n, size int) {
	for i := range 4 {
		if i >= len(b) {
			return 0, 0
		}
		n |= int(b[i]&0x7F) << (7 * i)
		if b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, -1
}

// acknowledgement is the packet id and the reason code of PUBACK, PUBREC,
// PUBREL and PUBCOMP.
func acknowledgement(body []byte) (id uint16, reason byte, ok bool) {
	if len(body) < 2 {
		return 0, 0, false
	}
	if len(body) > 2 {
		reason = body[2]
	}
	return binary.BigEndian.Uint16(body), reason, true
}

// receiveMaximumOf reads the receive maximum from a CONNACK of MQTT 5: the number of
// unacknowledged messages that the client may send.
func receiveMaximumOf(connack []byte) int {
	const unsaid = 65535
	if len(connack) < 3 {
		return unsaid
	}
	properties, _, ok := cutProperties(connack[2:])
	if !ok {
		return unsaid
	}
	for len(properties) > 0 {
		id := properties[0]
		if id == 0x21 && len(properties) >= 3 {
			return int(binary.BigEndian.Uint16(properties[1:]))
		}
		size := propertySize(id, properties[1:])
		if size < 0 || 1+size > len(properties) {
			return unsaid
		}
		properties = properties[1+size:]
	}
	return unsaid
}

// propertySize is the length of a property's value, -1 if it is unknown.
func propertySize(id byte, value []byte) int {
	switch id {
	case 0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A:
		return 1
	case 0x13, 0x21, 0x22, 0x23:
		return 2
	case 0x02, 0x11, 0x18, 0x27:
		return 4
	case 0x0B:
		_, size := readVarint(value)
		return max(size, -1)
	case 0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F:
		if len(value) < 2 {
			return -1
		}
		return 2 + int(binary.BigEndian.Uint16(value))
	case 0x26:
		if len(value) < 2 {
			return -1
		}
		key := 2 + int(binary.BigEndian.Uint16(value))
		if len(value) < key+2 {
			return -1
		}
		return key + 2 + int(binary.BigEndian.Uint16(value[key:]))
	}
	return -1
}

const hexDigits = "0123456789abcdef"

// putHex writes n as 16 hexadecimal digits, in place.
func putHex(dst []byte, n uint64) {
	_ = dst[15]
	for i := 15; i >= 0; i-- {
		dst[i] = hexDigits[n&15]
		n >>= 4
	}
}

// getHex reads 16 hexadecimal digits.
func getHex(src []byte) (n uint64, ok bool) {
	if len(src) < 16 {
		return 0, false
	}
	for _, c := range src[:16] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
