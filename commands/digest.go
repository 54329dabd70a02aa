package commands

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// A Digest is a keyed hash of the bytes of params, cut short. It is the
// fingerprint of a request, is in its claim, and stands in its audit entry.
type Digest [16]byte

// String is the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// A Digester makes digests with a key that outlives the process. It is used on
// the path of every call.
type Digester interface {
	Digest(params []byte) Digest
}

// passingDigester has a key that ends with the process.
type passingDigester struct{ hashes sync.Pool }

func newPassingDigester() *passingDigester {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	d := new(passingDigester)
	d.hashes.New = func() any { return hmac.New(sha256.New, key) }
	return d
}

// Digest implements [Digester].
func (p *passingDigester) Digest(params []byte) (d Digest) {
	h := p.hashes.Get().(interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
		Reset()
	})
	defer p.hashes.Put(h)
	h.Reset()
	_, _ = h.Write(params) // never fails
	var sum [sha256.Size]byte
	copy(d[:], h.Sum(sum[:0]))
	return d
}
