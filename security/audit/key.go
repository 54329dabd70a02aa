package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/aibridge/aibridge/commands"
)

// KeySize is the size of the secret behind a [Key], in bytes.
const KeySize = 32

// A Key seals entries, and hides parameters. Its holder can forge the
// record; it belongs where the record is not.
type Key struct {
	chain   chainID
	secret  []byte
	exports []byte    // seed of the key that signs exports
	params  sync.Pool // of *digester
	seals   sync.Pool // the same
}

// NewKey makes a key out of a secret of [KeySize] random bytes.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("audit: the key has %d bytes instead of %d", len(secret), KeySize)
	}
	k := &Key{secret: derive(secret, "seals"), exports: derive(secret, "exports")}
	k.chain = chainID(derive(secret, "chain"))
	k.seals.New = func() any { return &digester{Hash: hmac.New(sha256.New, k.secret)} }
	hiding := derive(secret, "parameters")
	k.params.New = func() any { return &digester{Hash: hmac.New(sha256.New, hiding)} }
	return k, nil
}

func derive(secret []byte, purpose string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("aibridge audit " + purpose))
	return h.Sum(nil)
}

// mac authenticates parts under a domain.
func (k *Key) mac(domain string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(domain))
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// Digest is a keyed hash of the bytes of parameters: without the key, guesses
// cannot be checked by hashing them. It implements [commands.Digester].
func (k *Key) Digest(params []byte) (d commands.Digest) {
	h, ok := k.params.Get().(*digester)
	if !ok {
		return d
	}
	defer k.params.Put(h)
	h.Reset()
	h.Write(params)
	copy(d[:], h.Sum(h.sum[:0]))
	return d
}

// sealGroup is the seal of a group with a hash.
func (k *Key) sealGroup(hash [sha256.Size]byte) (seal [sha256.Size]byte) {
	h, ok := k.seals.Get().(*digester)
	if !ok {
		return seal
	}
	defer k.seals.Put(h)
	h.Reset()
	h.sum = hash // on the heap already
	h.Write(sealDomainBytes)
	h.Write(h.sum[:])
	copy(seal[:], h.Sum(h.sum[:0]))
	return seal
}

// A digester has room for a hash and its result.
type digester struct {
	hash.Hash
	sum [sha256.Size]byte
}

// A headNote is a head as it is kept outside the log.
type headNote struct {
	Chain string `json:"chain"`
	Head  string `json:"head"`
	MAC   []byte `json:"mac"`
}

// note encodes a head with a MAC, so that it cannot be changed without the key.
func (k *Key) note(h Head) []byte {
	text := h.String()
	data, _ := json.Marshal(headNote{k.chain.String(), text, k.mac(headDomain, []byte(text))}) // strings and bytes never fail
	return append(data, '\n')
}

// readNote reads a head that was noted. It is the zero Head if the note is of
// another chain.
func (k *Key) readNote(data []byte) (Head, error) {
	var n headNote
	if err := json.Unmarshal(data, &n); err != nil {
		return Head{}, fmt.Errorf("the noted head is not readable: %w", err)
	}
	if n.Chain != k.chain.String() {
		return Head{}, nil
	}
	if !hmac.Equal(n.MAC, k.mac(headDomain, []byte(n.Head))) {
		return Head{}, errors.New("the noted head was changed")
	}
	return ParseHead(n.Head)
}

// Chain is the id of the chain that is written with the key.
func (k *Key) Chain() string { return k.chain.String() }
