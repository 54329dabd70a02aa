package commands

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"sync"
)

// fingerprint is the hash of a command and its params by which a repeated
// request is recognised. It does not depend on white space or on the order of
// members, which a client that writes its request again may change.
func fingerprint(command string, params []byte) [sha256.Size]byte {
	w := writers.Get().(*canonicalWriter)
	w.out = append(w.out[:0], command...)
	w.out = append(w.out, '\n')
	w.src, w.pos = params, 0
	w.value()
	sum := sha256.Sum256(w.out)
	w.src = nil
	if cap(w.out) <= 64<<10 {
		writers.Put(w)
	}
	return sum
}

var writers = sync.Pool{New: func() any { return new(canonicalWriter) }}

// A canonicalWriter copies one JSON value from src to out, without white
// space and with the members of objects in the order of their names. Src was
// checked before; on anything else it merely ends early.
type canonicalWriter struct {
	src     []byte
	pos     int
	out     []byte
	members []span // of all objects being written, the innermost last
	scratch []byte
}

// A span is a member in out, and its name in src.
type span struct {
	name       []byte
	begin, end int
}

func (w *canonicalWriter) value() {
	switch w.skipSpace() {
	case '{':
		w.object()
	case '[':
		w.list()
	case '"':
		w.out = append(w.out, w.text()...)
	default:
		begin := w.pos
		for w.pos < len(w.src) && !ends(w.src[w.pos]) {
			w.pos++
		}
		w.out = append(w.out, w.src[begin:w.pos]...)
	}
}

// skipSpace returns the byte after white space, 0 at the end.
func (w *canonicalWriter) skipSpace() byte {
	for ; w.pos < len(w.src); w.pos++ {
		switch c := w.src[w.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// ends reports whether a byte ends a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', ']', '}', ':', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// text reads a string with its quotes.
func (w *canonicalWriter) text() []byte {
	begin := w.pos
	for i := begin + 1; i < len(w.src); i++ {
		switch w.src[i] {
		case '\\':
			i++
		case '"':
			w.pos = i + 1
			return w.src[begin:w.pos]
		}
	}
	w.pos = len(w.src)
	return w.src[begin:]
}

func (w *canonicalWriter) list() {
	w.out = append(w.out, '[')
	for w.pos++; ; {
		switch c := w.skipSpace(); c {
		case ']', 0, '}', ':':
			w.pos++
			w.out = append(w.out, ']')
			return
		case ',':
			w.pos++
			w.out = append(w.out, ',')
		default:
			w.value()
		}
	}
}

func (w *canonicalWriter) object() {
	w.out = append(w.out, '{')
	first := len(w.members)
	for w.pos++; w.skipSpace() == '"'; {
		m := span{name: w.text(), begin: len(w.out)}
		w.out = append(w.out, m.name...)
		w.out = append(w.out, ':')
		if w.skipSpace() == ':' {
			w.pos++
		}
		w.value()
		m.end = len(w.out)
		w.members = append(w.members, m)
		if w.skipSpace() == ',' {
			w.pos++
			w.out = append(w.out, ',')
		}
	}
	w.pos++
	w.sort(w.members[first:])
	w.members = w.members[:first]
	w.out = append(w.out, '}')
}

// sort puts the members of one object, which are the end of out, in order.
func (w *canonicalWriter) sort(members []span) {
	byName := func(a, b span) int { return bytes.Compare(a.name, b.name) }
	if slices.IsSortedFunc(members, byName) {
		return
	}
	begin := members[0].begin
	slices.SortStableFunc(members, byName)
	w.scratch = w.scratch[:0]
	for i, m := range members {
		if i > 0 {
			w.scratch = append(w.scratch, ',')
		}
		w.scratch = append(w.scratch, w.out[m.begin:m.end]...)
	}
	w.out = append(w.out[:begin], w.scratch...)
}
