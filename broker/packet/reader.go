package packet

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// A reader walks the body of a packet. The first violation sticks; after it
// every read gives zero values.
type reader struct {
	b   []byte
	err *Error
}

func (r *reader) fail(err *Error) {
	if r.err == nil && err != nil {
		r.err, r.b = err, nil
	}
}

// done returns the violation, or that bytes are left over.
func (r *reader) done() error {
	if r.err != nil {
		return r.err
	}
	if len(r.b) != 0 {
		return malformed("bytes left over")
	}
	return nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(malformed("packet ends too early"))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if v := r.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *reader) varint() uint32 {
	if r.err != nil {
		return 0
	}
	v, n := varint(r.b)
	if n <= 0 {
		r.fail(malformed("variable byte integer"))
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) binary() []byte { return r.take(int(r.u16())) }

// string reads a UTF-8 string: [MQTT-1.5.4-1] no ill-formed sequences or
// surrogates, [MQTT-1.5.4-2] no U+0000. A byte order mark is kept as it is
// [MQTT-1.5.4-3].
func (r *reader) string() []byte {
	s := r.binary()
	if !ValidString(s) {
		r.fail(malformed("string is not valid UTF-8"))
		return nil
	}
	return s
}

// packetID keeps [MQTT-2.2.1-3] and [MQTT-2.2.1-4]: never 0.
func (r *reader) packetID() uint16 {
	id := r.u16()
	if id == 0 && r.err == nil {
		r.fail(violation("packet identifier 0"))
	}
	return id
}

// ValidString reports whether s may stand in an MQTT string.
func ValidString(s []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		w := binary.LittleEndian.Uint64(s)
		if (w|(w-ones)&^w)&tops != 0 { // a byte that is NUL or not ASCII
			break
		}
	}
	for i, c := range s {
		if c >= utf8.RuneSelf {
			return utf8.Valid(s[i:]) && bytes.IndexByte(s, 0) < 0
		}
		if c == 0 {
			return false
		}
	}
	return true
}

func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendU16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }
