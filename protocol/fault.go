package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unexpected notes what stands where something else should.
func (s *scanner) unexpected(want string) bool {
	rest := s.data[s.pos:]
	switch {
	case len(rest) == 0:
		return s.fail(s.pos, "ends where "+want+" should be")
	case s.pos == 0 && strings.HasPrefix(string(rest[:min(3, len(rest))]), "\ufeff"):
		return s.fail(0, "begins with a byte order mark")
	}
	if n := word(rest); n > 0 {
		return s.fail(s.pos, "has "+string(rest[:n])+", which is no JSON value, where "+want+" should be")
	}
	if r, size := utf8.DecodeRune(rest); r != utf8.RuneError || size > 1 {
		return s.fail(s.pos, fmt.Sprintf("has %q where %s should be", r, want))
	}
	return s.fail(s.pos, "is not valid UTF-8")
}

// word is the length of the word at the start of data, such as NaN or
// -Infinity, as far as a message shows it.
func word(data []byte) int {
	n := 0
	for n < min(len(data), 16) && (isLetter(data[n]) || n == 0 && (data[n] == '-' || data[n] == '+')) {
		n++
	}
	if n == 1 && !isLetter(data[0]) {
		return 0
	}
	return n
}

// malformed notes a number that JSON does not know.
func (s *scanner) malformed(start int) bool {
	end := start
	for end < min(len(s.data), start+24) && (isLetter(s.data[end]) || isDigit(s.data[end]) || strings.IndexByte("+-.", s.data[end]) >= 0) {
		end++
	}
	return s.fail(start, "has the malformed number "+string(s.data[start:end]))
}

func code(c byte) string { return fmt.Sprintf("U+%04X", c) }

// maxPath bounds the path in an error, in bytes: keys are the sender's.
const maxPath = 256

// inMember says that the fault is within a member of an object.
func (f *fault) inMember(key []byte) {
	if len(key) > 64 {
		key = append(key[:64:64], "…"...)
	}
	name := strings.ToValidUTF8(string(key), "")
	switch {
	case f.path == "":
		f.path = name
	case len(f.path) > maxPath:
	case f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
}

// inElement says that the fault is within an element of an array.
func (f *fault) inElement(i int) {
	index := "[" + strconv.Itoa(i) + "]"
	switch {
	case len(f.path) > maxPath:
	case f.path == "" || f.path[0] == '[':
		f.path = index + f.path
	default:
		f.path = index + "." + f.path
	}
}

// error is the fault as callers see it.
func (f *fault) error() *Error {
	if f.path == "" {
		return Errorf(MalformedEnvelope, "malformed JSON: the message %s", f.reason).
			With("reason", f.reason).With("offset", f.offset)
	}
	return malformed(f.path, f.reason, f.offset)
}

// malformed is the error for an envelope whose field at a path is wrong.
func malformed(path, reason string, offset int) *Error {
	return &Error{
		Code:    MalformedEnvelope,
		Message: path + " " + reason,
		Details: map[string]any{"param_name": path, "reason": reason, "offset": offset},
	}
}
