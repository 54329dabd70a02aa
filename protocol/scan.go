package protocol

import (
	"strconv"
)

// A kind is the type of a JSON value. The zero kind is that of a value that
// is not there.
type kind uint8

const (
	kindAbsent kind = iota
	kindNull
	kindBoolean
	kindNumber
	kindString
	kindObject
	kindArray
)

func (k kind) String() string {
	return [...]string{"missing", "null", "a boolean", "a number", "a string", "an object", "an array"}[k]
}

// A span is the place of a value in the scanned data; of a string, without the quotes.
type span struct {
	start, end int32
	kind       kind
	escaped    bool // a string that has escapes
}

func (v span) len() int { return int(v.end - v.start) }

const (
	// linearKeys is the number of keys of an object that are compared with
	// each other; beyond it a map finds duplicates, so that no message costs
	// quadratic time.
	linearKeys = 16
	// maxKeys is the number of keys of all open objects that are kept for comparing.
	maxKeys = 48
)

// A scanner checks JSON in one pass, more strictly than encoding/json: no
// duplicate keys at any depth, no invalid UTF-8, no unpaired surrogates,
// bounded nesting. On the way it notes where the fields it knows are.
//
// Methods that return ok=false have noted why in fault.
type scanner struct {
	data   []byte
	pos    int
	room   int           // how much deeper objects and arrays may nest
	depth  int           // the limit, for messages
	keys   [maxKeys]span // of the objects that are open, outermost first
	known  int           // how many of keys are
	fields fields        // where the known fields are
	fault  fault
}

// A fault is the first thing wrong with the data.
type fault struct {
	reason string
	offset int
	path   string // of the value it is in: params.items[3]
}

func (s *scanner) fail(offset int, reason string) bool {
	s.fault = fault{reason: reason, offset: offset}
	return false
}

// document scans the whole data: one value and nothing behind it.
func (s *scanner) document(of scope) (span, bool) {
	s.space()
	if s.pos == len(s.data) {
		return span{}, s.fail(s.pos, "is empty")
	}
	v, ok := s.value(of)
	if !ok {
		return v, false
	}
	s.space()
	if s.pos != len(s.data) {
		return v, s.fail(s.pos, "has more data behind the value")
	}
	return v, true
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// peek is the next byte, NUL at the end; NUL is never right either.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// value scans a value. An object's members are looked up in the scope.
func (s *scanner) value(of scope) (span, bool) {
	v := span{start: int32(s.pos)}
	var ok bool
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '{':
		v.kind, ok = kindObject, s.object(of)
	case c == '[':
		v.kind, ok = kindArray, s.array()
	case c == '-' || '0' <= c && c <= '9':
		v.kind, ok = kindNumber, s.number()
	case c == 't':
		v.kind, ok = kindBoolean, s.word("true")
	case c == 'f':
		v.kind, ok = kindBoolean, s.word("false")
	case c == 'n':
		v.kind, ok = kindNull, s.word("null")
	default:
		ok = s.unexpected("a value")
	}
	v.end = int32(s.pos)
	return v, ok
}

func (s *scanner) enter() bool {
	if s.room == 0 {
		return s.fail(s.pos, "is nested deeper than "+strconv.Itoa(s.depth))
	}
	s.room--
	s.pos++
	s.space()
	return true
}

func (s *scanner) object(of scope) bool {
	if !s.enter() {
		return false
	}
	if s.peek() == '}' {
		return s.leave()
	}
	base := s.known
	var seen map[string]struct{}
	for {
		if s.peek() != '"' {
			return s.unexpected("a key")
		}
		key, ok := s.str()
		if !ok {
			return false
		}
		if seen == nil && s.known < min(base+linearKeys, maxKeys) {
			if s.repeated(base, key) {
				return s.duplicate(key)
			}
			s.keys[s.known] = key
			s.known++
		} else {
			if seen == nil {
				seen = s.names(base)
			}
			name := string(s.bytes(key))
			if _, ok := seen[name]; ok {
				return s.duplicate(key)
			}
			seen[name] = struct{}{}
		}
		if !s.member(of, key) {
			s.fault.inMember(s.bytes(key))
			return false
		}
		switch s.space(); s.peek() {
		case ',':
			s.pos++
			s.space()
		case '}':
			s.known = base
			return s.leave()
		default:
			return s.unexpected("a comma or }")
		}
	}
}

func (s *scanner) leave() bool {
	s.pos++
	s.room++
	return true
}

// member scans what follows a key and notes the value if the scope knows it.
func (s *scanner) member(of scope, key span) bool {
	s.space()
	if s.peek() != ':' {
		return s.unexpected("a colon")
	}
	s.pos++
	s.space()
	f := noField
	if of != noScope {
		f = of.field(s.bytes(key))
	}
	v, ok := s.value(f.scope())
	if ok && f != noField {
		s.fields[f] = v
	}
	return ok
}

// repeated reports whether one of the object's few keys so far is this one.
func (s *scanner) repeated(base int, key span) bool {
	for _, k := range s.keys[base:s.known] {
		if !k.escaped && !key.escaped {
			if k.len() == key.len() && string(s.data[k.start:k.end]) == string(s.data[key.start:key.end]) {
				return true
			}
		} else if string(s.bytes(k)) == string(s.bytes(key)) {
			return true
		}
	}
	return false
}

// names gathers the keys so far of an object that has many.
func (s *scanner) names(base int) map[string]struct{} {
	seen := make(map[string]struct{}, 4*linearKeys)
	for _, k := range s.keys[base:s.known] {
		seen[string(s.bytes(k))] = struct{}{}
	}
	return seen
}

func (s *scanner) duplicate(key span) bool {
	s.fail(int(key.start)-1, "is a duplicate key")
	s.fault.inMember(s.bytes(key))
	return false
}

func (s *scanner) array() bool {
	if !s.enter() {
		return false
	}
	if s.peek() == ']' {
		return s.leave()
	}
	for i := 0; ; i++ {
		if _, ok := s.value(noScope); !ok {
			s.fault.inElement(i)
			return false
		}
		switch s.space(); s.peek() {
		case ',':
			s.pos++
			s.space()
		case ']':
			return s.leave()
		default:
			return s.unexpected("a comma or ]")
		}
	}
}

func (s *scanner) word(want string) bool {
	if rest := s.data[s.pos:]; len(rest) < len(want) || string(rest[:len(want)]) != want {
		return s.unexpected("a value")
	}
	s.pos += len(want)
	return true
}

// number scans -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() bool {
	start := s.pos
	if s.data[s.pos] == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case !s.digits():
		return s.malformed(start)
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.malformed(start)
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.malformed(start)
		}
	}
	if c := s.peek(); isLetter(c) || isDigit(c) || c == '.' || c == '+' || c == '-' {
		return s.malformed(start)
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	return s.pos > start
}

func isDigit(c byte) bool  { return c-'0' <= 9 }
func isLetter(c byte) bool { return c|0x20-'a' < 26 }
