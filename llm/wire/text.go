package wire

import (
	"encoding/hex"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a JSON string that may hold a part of a character at its ends: some
// services cut their streams between the bytes of a character or between the
// halves of a surrogate pair. Null is the empty text.
type Text []byte

var errText = errors.New("not a JSON string")

// UnmarshalJSON implements [encoding/json.Unmarshaler]. Half a surrogate pair
// becomes three bytes that [Joiner] knows.
func (t *Text) UnmarshalJSON(data []byte) error {
	*t = (*t)[:0]
	if string(data) == "null" {
		return nil
	}
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return errText
	}
	data = data[1 : len(data)-1]
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			*t = append(*t, data[i])
			continue
		}
		if i++; i == len(data) {
			return errText
		}
		switch c := data[i]; c {
		case 'u':
			var unit [2]byte
			if i+4 >= len(data) {
				return errText
			}
			if _, err := hex.Decode(unit[:], data[i+1:i+5]); err != nil {
				return errText
			}
			i += 4
			*t = appendUnit(*t, rune(unit[0])<<8|rune(unit[1]))
		case 'b':
			*t = append(*t, '\b')
		case 'f':
			*t = append(*t, '\f')
		case 'n':
			*t = append(*t, '\n')
		case 'r':
			*t = append(*t, '\r')
		case 't':
			*t = append(*t, '\t')
		default:
			*t = append(*t, c)
		}
	}
	return nil
}

// appendUnit appends a UTF-16 code unit. Halves of pairs are encoded like any
// other character, which UTF-8 forbids and nothing else produces; a pair that
// is complete becomes its character.
func appendUnit(dst []byte, unit rune) []byte {
	if !utf16.IsSurrogate(unit) {
		return utf8.AppendRune(dst, unit)
	}
	if high, ok := half(dst, len(dst)-3); ok {
		if r := utf16.DecodeRune(high, unit); r != utf8.RuneError {
			return utf8.AppendRune(dst[:len(dst)-3], r)
		}
	}
	return append(dst, 0xED, 0x80|byte(unit>>6)&0x3F, 0x80|byte(unit)&0x3F)
}

// half is the surrogate that stands at a place of text.
func half(text []byte, at int) (rune, bool) {
	if at < 0 || at+3 > len(text) || text[at] != 0xED || text[at+1]&0xE0 != 0xA0 {
		return 0, false
	}
	return 0xD000 | rune(text[at+1]&0x3F)<<6 | rune(text[at+2]&0x3F), true
}

// A Joiner joins the pieces of a text to whole characters. The zero value is ready to
// use.
type Joiner struct{ rest []byte }

// Add returns the complete text with the next piece.
func (j *Joiner) Add(piece Text) string {
	text := append(j.rest, piece...)
	keep := incomplete(text)
	whole := clean(text[:len(text)-keep])
	j.rest = append([]byte(nil), text[len(text)-keep:]...)
	return whole
}

// End returns the incomplete rest, as replacement characters.
func (j *Joiner) End() string {
	rest := clean(j.rest)
	j.rest = nil
	return rest
}

// incomplete is the number of bytes of an incomplete character at the end.
func incomplete(text []byte) int {
	if high, ok := half(text, len(text)-3); ok && high < 0xDC00 {
		return 3
	}
	for n := 1; n <= min(utf8.UTFMax-1, len(text)); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if tail[0] >= utf8.RuneSelf && !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}

// clean joins surrogates and replaces invalid UTF-8.
func clean(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if unit, ok := half(text, i); ok {
			low, pair := half(text, i+3)
			if r := utf16.DecodeRune(unit, low); pair && r != utf8.RuneError {
				out = utf8.AppendRune(out, r)
				i += 6
				continue
			}
			out = utf8.AppendRune(out, utf8.RuneError)
			i += 3
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		out = utf8.AppendRune(out, r)
		i += size
	}
	return string(out)
}

// MarshalJSON implements [encoding/json.Marshaler].
func (t Text) MarshalJSON() ([]byte, error) { return Marshal(clean(t)) }
