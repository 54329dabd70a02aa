package protocol

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxTimestamp is the end of the year 9999, so that adding to a timestamp
	// never overflows.
	maxTimestamp = 253402300799999
	// echoBytes is the length of a text at most that is too long and still handed
	// back for correlation.
	echoBytes = 4 * MaxIDLength
)

// texts copies the texts of an envelope out of the data: they cost one
// allocation together, and none of them keeps the message.
func texts(parts [4][]byte) (copies [4]string) {
	var all strings.Builder
	all.Grow(len(parts[0]) + len(parts[1]) + len(parts[2]) + len(parts[3]))
	for _, part := range parts {
		all.Write(part)
	}
	rest := all.String()
	for i, part := range parts {
		copies[i], rest = rest[:len(part)], rest[len(part):]
	}
	return copies
}

// raw is the JSON of a field as it stands in the data, nil when it is absent.
func (e *envelope) raw(f field) []byte {
	v := e.fields[f]
	switch v.kind {
	case kindAbsent:
		return nil
	case kindString:
		return e.data[v.start-1 : v.end+1] // with the quotes
	}
	return e.data[v.start:v.end]
}

// quoted is the text of a field for a message.
func (e *envelope) quoted(f field) string {
	s := []rune(string(e.string(f)))
	if len(s) > 32 {
		s = append(s[:32], '…')
	}
	return strconv.Quote(string(s))
}

// id reads an envelope's id. A fault does not keep it from
// being handed back, within reason.
func (e *envelope) id(f field) []byte {
	if e.fields[f].kind == kindNumber {
		e.is(f, kindString)
		return short(e.raw(f))
	}
	if !e.is(f, kindString) {
		return nil
	}
	s := e.string(f)
	if n := characters(s); n < 1 || n > MaxIDLength {
		e.fail(f, lengthReason(1, MaxIDLength, n))
	}
	return short(s)
}

func short(s []byte) []byte {
	if len(s) > echoBytes {
		return nil
	}
	return s
}

// name reads the name of a command or an event.
func (e *envelope) name(f field) []byte {
	if !e.is(f, kindString) {
		return nil
	}
	return e.line(f, 1, MaxCommandLength)
}

// line reads a text of a bounded length without control characters.
func (e *envelope) line(f field, least, most int) []byte {
	if !e.is(f, kindString) {
		return nil
	}
	s := e.string(f)
	if n := characters(s); n < least || n > most {
		e.fail(f, lengthReason(least, most, n))
		return short(s)
	}
	if !printable(s) {
		e.fail(f, "may not contain control characters")
	}
	return s
}

// fits reports whether s is a line of a length within the bounds.
func fits(s []byte, least, most int) bool {
	n := characters(s)
	return n >= least && n <= most && printable(s)
}

// characters counts what lengths count. Bytes are the same for most texts.
func characters(s []byte) int {
	if n := len(s); n <= 1 {
		return n
	}
	return utf8.RuneCount(s)
}

func printable(s []byte) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if unicode.IsControl(r) || Hidden(r) {
			return false
		}
		i += size
	}
	return true
}

func lengthReason(least, most, n int) string {
	return "must have " + strconv.Itoa(least) + " to " + strconv.Itoa(most) + " characters, has " + strconv.Itoa(n)
}

// integer reads a whole number within bounds.
func (e *envelope) integer(f field, least, most int64) (int64, bool) {
	if !e.is(f, kindNumber) {
		return 0, false
	}
	n, ok := e.whole(f)
	switch {
	case !ok:
		e.fail(f, "must be a whole number")
	case n < least || n > most:
		e.fail(f, "must be "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
		ok = false
	}
	return n, ok
}

// whole reads a field that is a whole number.
func (e *envelope) whole(f field) (int64, bool) {
	if e.fields[f].kind != kindNumber {
		return 0, false
	}
	return parseInteger(e.raw(f))
}

// parseInteger reads a JSON number that is whole, however it is written:
// 30000, 3e4 and 30000.0 are the same number, and some devices only have
// floating point.
func parseInteger(raw []byte) (int64, bool) {
	if len(raw) > 32 {
		return 0, false
	}
	if n, ok := parseDigits(raw); ok {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// parseDigits reads a sign and at most 18 digits.
func parseDigits(raw []byte) (n int64, ok bool) {
	digits := raw
	if raw[0] == '-' {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if raw[0] == '-' {
		n = -n
	}
	return n, true
}
