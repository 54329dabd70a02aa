package audit

import (
	"bytes"
	"slices"
)

// maxShown bounds a parameter that is recorded in the clear, in bytes.
const maxShown = 256

// appendShown writes those members of a JSON object that may be recorded in the
// clear, again as an object; nothing if there are none. The object must be valid
// JSON.
func appendShown(dst, params []byte, names []string) []byte {
	if len(names) == 0 {
		return dst
	}
	s := scanner{data: params}
	if !s.enter('{') {
		return dst
	}
	begin, left := len(dst), len(names)
	for left > 0 && s.more('}') {
		name := s.value()
		s.skip(':')
		value := s.value()
		if len(name) < 2 || len(value) == 0 {
			break
		}
		if !contains(names, name[1:len(name)-1]) {
			continue
		}
		left--
		if len(value) > maxShown || len(dst)-begin > MaxParams-2*maxShown {
			continue
		}
		if len(dst) == begin {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, name...), ':'), value...)
	}
	if len(dst) > begin {
		dst = append(dst, '}')
	}
	return dst
}

func contains(names []string, name []byte) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == string(name) })
}

// A scanner walks over JSON that is known to be valid. Invalid JSON does no
// harm: it ends early.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) enter(open byte) bool {
	s.space()
	if s.at >= len(s.data) || s.data[s.at] != open {
		return false
	}
	s.at++
	return true
}

func (s *scanner) skip(c byte) {
	if s.space(); s.at < len(s.data) && s.data[s.at] == c {
		s.at++
	}
}

// more reports whether another member comes.
func (s *scanner) more(end byte) bool {
	s.skip(',')
	s.space()
	return s.at < len(s.data) && s.data[s.at] != end
}

// value takes the next value of any type.
func (s *scanner) value() []byte {
	s.space()
	from, depth := s.at, 0
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.text()
			if depth == 0 {
				return s.data[from:s.at]
			}
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return bytes.TrimRight(s.data[from:s.at], " \t\r\n")
			}
			if depth--; depth == 0 {
				s.at++
				return s.data[from:s.at]
			}
		case c == ',' && depth == 0:
			return bytes.TrimRight(s.data[from:s.at], " \t\r\n")
		}
		s.at++
	}
	return s.data[from:s.at]
}

// text goes over a string.
func (s *scanner) text() {
	for s.at++; ; {
		n := bytes.IndexByte(s.data[s.at:], '"')
		if n < 0 {
			s.at = len(s.data)
			return
		}
		from := s.at
		s.at += n + 1
		slashes := 0
		for i := s.at - 2; i >= from && s.data[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return
		}
	}
}
