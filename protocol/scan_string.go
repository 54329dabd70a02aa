package protocol

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// str scans a string, with the quote in front still to be read.
func (s *scanner) str() (span, bool) {
	data, i := s.data, s.pos+1
	v := span{start: int32(i), kind: kindString}
	for {
		for i+8 <= len(data) {
			if special := specials(binary.LittleEndian.Uint64(data[i:])); special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return v, s.fail(len(data), "ends within a string")
		}
		switch c := data[i]; {
		case c == '"':
			v.end = int32(i)
			s.pos = i + 1
			return v, true
		case c == '\\':
			n := s.escape(i)
			if n == 0 {
				return v, false
			}
			v.escaped = true
			i += n
		case c < ' ':
			return v, s.fail(i, "has the control character "+code(c)+" in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				return v, s.fail(i, "is not valid UTF-8")
			}
			i += size
		}
	}
}

// specials marks, by the top bit of its byte, the first of eight bytes that a
// string does not simply pass over: a quote, a backslash, a control character
// or one that is not ASCII. Bytes above the first may be marked wrongly.
func specials(w uint64) uint64 {
	return w&tops | breaks(w)
}

// breaks is specials without those that are not ASCII.
func breaks(w uint64) uint64 {
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return ((w-blanks)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops
}

const (
	ones   = 0x0101010101010101
	tops   = ones << 7
	blanks = ones * ' '
)

// Plain is the number of bytes at the start of a text that stand in a JSON string as they
// are: up to the first that is a quote, a backslash or a control character.
func Plain(text []byte) int { return run(text, 0) }

// run is Plain, up to the first byte at most that has a bit of the mask.
func run(text []byte, mask uint64) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		if marked := w&mask | breaks(w); marked != 0 {
			return i + bits.TrailingZeros64(marked)/8
		}
	}
	for ; i < len(text); i++ {
		if w := uint64(text[i]) | blanks&^0xFF; w&mask|breaks(w) != 0 {
			break
		}
	}
	return i
}

// escape returns the length of the escape at i, 0 for one that is wrong.
func (s *scanner) escape(i int) int {
	if i+1 >= len(s.data) {
		s.fail(len(s.data), "ends within a string")
		return 0
	}
	switch s.data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r, ok := hexRune(s.data[i:])
		switch {
		case !ok:
			s.fail(i, `has a malformed \u escape`)
			return 0
		case !utf16.IsSurrogate(r):
			return 6
		}
		if low, ok := hexRune(s.data[i+6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			return 12
		}
		s.fail(i, "has an unpaired surrogate")
		return 0
	}
	s.fail(i, "has an unknown escape")
	return 0
}

// hexRune reads \uXXXX at the start of data.
func hexRune(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range data[2:6] {
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20-'a' < 6:
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// bytes is the text of a scanned string; it aliases the data unless the
// string has escapes.
func (s *scanner) bytes(v span) []byte {
	raw := s.data[v.start:v.end]
	if !v.escaped {
		return raw
	}
	return appendUnescaped(make([]byte, 0, len(raw)), raw)
}

// appendUnescaped appends what a scanned string means.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hexRune(raw[i-1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low, _ := hexRune(raw[i+1:])
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
