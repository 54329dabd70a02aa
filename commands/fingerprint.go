package commands

import (
	"crypto/sha256"
	"hash/maphash"
	"math/bits"

	"github.com/aibridge/aibridge/protocol"
)

// A fingerprinter recognises repeated requests by their command and params,
// regardless of white space and order of members, which a client may change
// when it writes its request again. Fingerprints of one fingerprinter are
// comparable; they say nothing to another process.
//
// Members are hashed one by one and added up, so that nothing has to be sorted
// or copied. Only requests of the same principal with the same id are compared:
// a client that makes two of them collide deceives only itself.
type fingerprinter struct{ seed maphash.Seed }

func newFingerprinter() fingerprinter { return fingerprinter{maphash.MakeSeed()} }

// of is the fingerprint of a command with checked params.
func (f fingerprinter) of(command string, params []byte) uint64 {
	w := walker{f, params, 0}
	return mix(maphash.String(f.seed, command), w.value())
}

// claimHash identifies a request to a later process: it is equal only for equal
// bytes.
func claimHash(command string, params []byte) [sha256.Size]byte {
	const usual = 1024 // bytes that need no allocation
	text := append(make([]byte, 0, usual), command...)
	text = append(text, 0)
	return sha256.Sum256(append(text, params...))
}

// mix makes one hash of two, in their order.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}

// A walker hashes one JSON value. What it walks over was checked before; on
// anything else it merely ends early.
type walker struct {
	fingerprinter
	src []byte
	pos int
}

func (w *walker) value() uint64 {
	switch w.next() {
	case '{':
		return w.object()
	case '[':
		return w.list()
	case '"':
		return w.text()
	}
	begin := w.pos
	for w.pos < len(w.src) && !ends(w.src[w.pos]) {
		w.pos++
	}
	return maphash.Bytes(w.seed, w.src[begin:w.pos])
}

// next returns the byte after white space, 0 at the end.
func (w *walker) next() byte {
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

// text hashes a string with its quotes, as it is written.
func (w *walker) text() uint64 {
	begin, end := w.pos, w.pos+1
	for ; end < len(w.src); end++ {
		if end += protocol.Plain(w.src[end:]); end == len(w.src) || w.src[end] == '"' {
			break
		}
		if w.src[end] == '\\' {
			end++
		}
	}
	w.pos = min(end+1, len(w.src))
	return maphash.Bytes(w.seed, w.src[begin:w.pos])
}

func (w *walker) list() uint64 {
	sum := uint64('[')
	for w.pos++; ; {
		switch w.next() {
		case ']', 0, '}', ':':
			w.pos++
			return sum
		case ',':
			w.pos++
		default:
			sum = mix(sum, w.value())
		}
	}
}

func (w *walker) object() uint64 {
	sum := uint64('{')
	for w.pos++; w.next() == '"'; {
		name := w.text()
		if w.next() == ':' {
			w.pos++
		}
		sum += mix(name, w.value())
		if w.next() == ',' {
			w.pos++
		}
	}
	w.pos++
	return sum
}
