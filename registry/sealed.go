package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A Sealing says whether the params of a capability are sealed from client to
// client, so that the bridge passes them on without reading them.
type Sealing string

// The ways of sealing; "" is never.
const (
	SealedOptional Sealing = "optional"
	SealedRequired Sealing = "required"
)

// An EncryptionKey is a public key that params are sealed to. The bridge only
// passes it on: whether to trust it is for callers to decide, by the signature
// of a certificate of the skill or because they have known the key before.
type EncryptionKey struct {
	ID        string   `json:"kid" len:"1-64" doc:"unique among the skill's keys"`
	Suite     string   `json:"suite" enum:"X25519-SHA256-AES256GCM" doc:"HPKE (RFC 9180) with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM"`
	Key       []byte   `json:"key" doc:"the public key, 32 bytes"`
	Expires   int64    `json:"expires,omitempty" range:"1-253402300799999" doc:"time at which it ends, Unix milliseconds"`
	Chain     [][]byte `json:"chain,omitempty" len:"1-3" doc:"certificate of the skill that signed it, and those above it, DER"`
	Signature []byte   `json:"signature,omitempty" doc:"by the certificate's key, over what docs/security.md says"`
}

// Bounds of the fields of a key, in bytes.
const (
	maxKeyCertificate = 4 << 10
	maxKeySignature   = 512
)

func checkKeys(keys []EncryptionKey) error {
	for i, k := range keys {
		at := fmt.Sprintf("encryption_keys[%d].", i)
		switch {
		case len(k.Key) != protocol.SealedKeySize:
			return protocol.InvalidParam(at+"key", "must have 32 bytes")
		case len(k.Signature) > maxKeySignature:
			return protocol.InvalidParam(at+"signature", "must have at most 512 bytes")
		case slices.ContainsFunc(keys[:i], func(o EncryptionKey) bool { return o.ID == k.ID }):
			return protocol.InvalidParam(at+"kid", fmt.Sprintf("%q is there twice", k.ID))
		}
		for j, cert := range k.Chain {
			if len(cert) == 0 || len(cert) > maxKeyCertificate {
				return protocol.InvalidParam(fmt.Sprintf("%schain[%d]", at, j), "must have 1 to 4096 bytes")
			}
		}
	}
	return nil
}

func sameKeys(a, b []EncryptionKey) bool {
	return slices.EqualFunc(a, b, func(k, o EncryptionKey) bool {
		return k.ID == o.ID && k.Suite == o.Suite && bytes.Equal(k.Key, o.Key) && k.Expires == o.Expires &&
			bytes.Equal(k.Signature, o.Signature) && slices.EqualFunc(k.Chain, o.Chain, bytes.Equal)
	})
}

// withoutChains is the part of keys that goes on a card, which is small.
func withoutChains(keys []EncryptionKey) []EncryptionKey {
	short := slices.Clone(keys)
	for i := range short {
		short[i].Chain = nil
	}
	return short
}

// checkSealed checks the envelope of sealed params, whose content the bridge cannot
// read. It reports false for params that are not sealed and need not be.
func (c *Capability) checkSealed(params json.RawMessage) (done bool, err error) {
	if !protocol.IsSealed(params) {
		if c.Sealed == SealedRequired {
			return false, protocol.InvalidParam("params", "must be sealed: the capability takes nothing that others can read")
		}
		return false, nil
	}
	sealed, err := protocol.ParseSealed(params, "params")
	if err != nil {
		return false, err
	}
	return true, sealed.CheckRequest("params")
}

// checkSealedResult checks the outside of a sealed answer.
func checkSealedResult(result json.RawMessage) error {
	if _, err := protocol.ParseSealed(result, "result"); err != nil {
		return &ask.InvalidResult{At: "result", Reason: "is not a sealed payload"}
	}
	return nil
}
