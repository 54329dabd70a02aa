package evidence

import (
	"encoding/binary"
	"encoding/hex"
)

// Ids of requests and traces mostly are UUIDs or 32 hexadecimal digits, in lower case:
// these are stored in 16 bytes. An encoded id is a byte with its form, and its bytes;
// any other text is preceded by its length.
const (
	idText byte = iota
	idUUID
	idHex
)

const idSize = 16

// AppendID writes an id.
func AppendID(dst []byte, id string) []byte {
	switch len(id) {
	case 36:
		if id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-' {
			if out, ok := appendDigits(append(dst, idUUID), id[:8], id[9:13], id[14:18], id[19:23], id[24:]); ok {
				return out
			}
		}
	case 2 * idSize:
		if out, ok := appendDigits(append(dst, idHex), id); ok {
			return out
		}
	}
	dst = binary.AppendUvarint(append(dst, idText), uint64(len(id)))
	return append(dst, id...)
}

// appendDigits writes runs of hexadecimal digits as bytes. It fails for others.
func appendDigits(dst []byte, runs ...string) ([]byte, bool) {
	for _, run := range runs {
		for i := 0; i < len(run); i += 2 {
			high, low := digits[run[i]], digits[run[i+1]]
			if high|low > 0xf {
				return nil, false
			}
			dst = append(dst, high<<4|low)
		}
	}
	return dst, true
}

// digits are the values of lower-case hexadecimal digits, 0xff for all others.
var digits = func() (values [256]byte) {
	for i := range values {
		values[i] = 0xff
	}
	for i := range 16 {
		values["0123456789abcdef"[i]] = byte(i)
	}
	return values
}()

// CutID reads an id, and returns the rest.
func CutID(data []byte) (id string, rest []byte, ok bool) {
	if len(data) == 0 {
		return "", nil, false
	}
	kind, data := data[0], data[1:]
	if kind == idText {
		text, rest, ok := CutText(data)
		return string(text), rest, ok
	}
	if kind > idHex || len(data) < idSize {
		return "", nil, false
	}
	var text [36]byte
	hex.Encode(text[:], data[:idSize])
	if kind == idHex {
		return string(text[:2*idSize]), data[idSize:], true
	}
	hex.Encode(text[24:], data[10:16])
	hex.Encode(text[19:], data[8:10])
	hex.Encode(text[14:], data[6:8])
	hex.Encode(text[9:], data[4:6])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:]), data[idSize:], true
}

// CutUvarint reads a number, and returns the rest.
func CutUvarint(data []byte) (n uint64, rest []byte, ok bool) {
	n, size := binary.Uvarint(data)
	if size <= 0 {
		return 0, nil, false
	}
	return n, data[size:], true
}

// CutText reads a text after its length, and returns the rest.
func CutText(data []byte) (text, rest []byte, ok bool) {
	n, data, ok := CutUvarint(data)
	if !ok || n > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:n:n], data[n:], true
}
