package commands

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// A Digest is a keyed hash of the bytes of params, cut short. It is the
// fingerprint of a request, and part of its claim and its audit entry.
type Digest [16]byte

// String is the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// A Digester makes digests with a key that outlives the process. It is used on
// the path of every call.
type Digester interface {
	Digest(params []byte) Digest
}

// keyedDigester makes digests with a key.
type keyedDigester struct{ hashes sync.Pool }

// NewDigester returns a digester with a key.
func NewDigester(key []byte) Digester { return newKeyedDigester(key) }

// newPassingDigester returns one whose key ends with the process.
func newPassingDigester() *keyedDigester {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return newKeyedDigester(key)
}

func newKeyedDigester(key []byte) *keyedDigester {
	d := new(keyedDigester)
	d.hashes.New = func() any { return hmac.New(sha256.New, key) }
	return d
}

// Digest implements [Digester].
func (p *keyedDigester) Digest(params []byte) (d Digest) {
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
