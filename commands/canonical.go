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

// A span is a member in out. It begins with the name.
type span struct{ begin, value, end int }

func (w *canonicalWriter) value() {
	switch w.skipSpace() {
	case '{':
		w.object()
	case '[':
		w.list()
	case '"':
		w.text()
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
	for w.pos < len(w.src) {
		if c := w.src[w.pos]; c > ' ' {
			return c
		}
		w.pos++
	}
	return 0
}

// ends reports whether a byte ends a number or a literal.
func ends(c byte) bool {
	return c <= ' ' || c == ',' || c == ']' || c == '}' || c == ':'
}

// text copies a string with its quotes.
func (w *canonicalWriter) text() {
	begin, end := w.pos, w.pos+1
	for end < len(w.src) && w.src[end] != '"' {
		if w.src[end] == '\\' {
			end++
		}
		end++
	}
	w.pos = min(end+1, len(w.src))
	w.out = append(w.out, w.src[begin:w.pos]...)
}

func (w *canonicalWriter) list() {
	w.out = append(w.out, '[')
	for w.pos++; ; {
		switch w.skipSpace() {
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
	first, sorted := len(w.members), true
	for w.pos++; w.skipSpace() == '"'; {
		m := span{begin: len(w.out)}
		w.text()
		m.value = len(w.out)
		if w.skipSpace() == ':' {
			w.pos++
		}
		w.out = append(w.out, ':')
		w.value()
		m.end = len(w.out)
		if n := len(w.members); n > first && w.compare(w.members[n-1], m) > 0 {
			sorted = false
		}
		w.members = append(w.members, m)
		if w.skipSpace() == ',' {
			w.pos++
			w.out = append(w.out, ',')
		}
	}
	w.pos++
	if !sorted {
		w.sort(w.members[first:])
	}
	w.members = w.members[:first]
	w.out = append(w.out, '}')
}

func (w *canonicalWriter) compare(a, b span) int {
	return bytes.Compare(w.out[a.begin:a.value], w.out[b.begin:b.value])
}

// sort puts the members of one object, which are the end of out, in order.
func (w *canonicalWriter) sort(members []span) {
	begin := members[0].begin
	slices.SortStableFunc(members, w.compare)
	w.scratch = w.scratch[:0]
	for i, m := range members {
		if i > 0 {
			w.scratch = append(w.scratch, ',')
		}
		w.scratch = append(w.scratch, w.out[m.begin:m.end]...)
	}
	w.out = append(w.out[:begin], w.scratch...)
}
