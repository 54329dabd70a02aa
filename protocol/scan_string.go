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
		if i+shortText <= len(data) {
			if special := specials(binary.LittleEndian.Uint64(data[i:])); special != 0 {
				i += first(special)
			} else if special := specials(binary.LittleEndian.Uint64(data[i+8:])); special != 0 {
				i += 8 + first(special)
			} else {
				i += shortText + run(data[i+shortText:], tops)
			}
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

// shortText is the length up to which most strings are, in bytes: looking at two words takes
// less than calling run.
const shortText = 16

// specials marks, by the top bit of its byte, the first of eight bytes that a
// string does not simply pass over: a quote, a backslash, a control character
// or one that is not ASCII. Bytes above the first may be marked wrongly.
func specials(w uint64) uint64 {
	return w&tops | breaks(w)
}

// breaks is specials without those that are not ASCII.
func breaks(w uint64) uint64 {
	flipped, slash := w^quoteFlip, w^(ones*'\\')
	return ((flipped-flippedLeast)&^flipped | (slash-ones)&^slash) & tops
}

const (
	ones   = 0x0101010101010101
	tops   = ones << 7
	blanks = ones * ' '

	// Control characters are the bytes below a blank. With one bit turned the quote stands
	// just behind them, so that one comparison finds both.
	quoteFlip    = ones * ('"' ^ ' ')
	flippedLeast = ones * (' ' + 1)
)

// Plain is the number of bytes at the start of a text that stand in a JSON string as they
// are: up to the first that is a quote, a backslash or a control character.
func Plain(text []byte) int { return run(text, 0) }

// narrow is run, eight bytes at a time. The last eight are looked at once more with some
// before them, in which there is nothing to be found.
func narrow(text []byte, mask uint64) int {
	n := len(text)
	if n < 8 {
		w := uint64(blanks)
		for i := n - 1; i >= 0; i-- {
			w = w<<8 | uint64(text[i])
		}
		return min(first(w&mask|breaks(w)), n)
	}
	for i := 0; i < n; i += 8 {
		i = min(i, n-8)
		w := binary.LittleEndian.Uint64(text[i:])
		if marked := w&mask | breaks(w); marked != 0 {
			return i + first(marked)
		}
	}
	return n
}

// first is the place of the first byte that is marked by its top bit, 8 if none is.
func first(marked uint64) int { return bits.TrailingZeros64(marked) / 8 }

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
