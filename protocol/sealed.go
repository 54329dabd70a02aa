package protocol

import (
	"bytes"
	"encoding/json"
)

// SuiteX25519 is the one suite that payloads are sealed with so far: HPKE
// (RFC 9180), base mode, with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and
// AES-256-GCM.
const SuiteX25519 = "X25519-SHA256-AES256GCM"

// Sizes of the parts of a [Sealed], in bytes.
const (
	SealedKeySize = 32 // of public keys, and of the encapsulated one
	sealedTag     = 16 // that a ciphertext has at least
)

// A Sealed is a payload that the bridge passes on and cannot read: params of
// skill.invoke, or what a skill answers to such. On the wire it is the only
// member of an object, {"sealed": {…}}. Everything beside the ciphertext is
// authenticated with it.
type Sealed struct {
	Version    int    `json:"v"` // 1
	Suite      string `json:"suite"`
	KeyID      string `json:"kid,omitempty"`   // params: which key of the skill
	ID         string `json:"id,omitempty"`    // params: of the message, taken once
	At         int64  `json:"at,omitempty"`    // params: when it was sealed, Unix ms
	Reply      []byte `json:"reply,omitempty"` // params: the key that the answer is sealed to
	Seq        uint64 `json:"n,omitempty"`     // events: from 1
	Enc        []byte `json:"enc"`             // the encapsulated key
	Ciphertext []byte `json:"ct"`
}

// sealedMember is the beginning of the object of a sealed payload.
var sealedMember = []byte(`"sealed"`)

// IsSealed reports whether a payload claims to be sealed: it is an object
// whose first member is "sealed".
func IsSealed(payload []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), sealedMember)
}

// ParseSealed reads a sealed payload, strictly. The error is a 1001 about a
// field below path.
func ParseSealed(payload []byte, path string) (*Sealed, error) {
	var outer struct {
		Sealed *Sealed `json:"sealed"`
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&outer); err != nil || outer.Sealed == nil || dec.More() {
		return nil, InvalidParam(path, "is not a sealed payload: {\"sealed\": {…}} and nothing else")
	}
	s, at := outer.Sealed, path+".sealed."
	switch {
	case s.Version != 1:
		return nil, InvalidParam(at+"v", "must be 1")
	case s.Suite != SuiteX25519:
		return nil, InvalidParam(at+"suite", "must be "+SuiteX25519)
	case len(s.Enc) != SealedKeySize:
		return nil, InvalidParam(at+"enc", "must have 32 bytes")
	case len(s.Ciphertext) < sealedTag:
		return nil, InvalidParam(at+"ct", "is too short")
	}
	return s, nil
}

// CheckRequest refuses a sealed payload that cannot be params.
func (s *Sealed) CheckRequest(path string) error {
	at := path + ".sealed."
	switch {
	case s.KeyID == "" || len(s.KeyID) > MaxIDLength:
		return InvalidParam(at+"kid", "must have 1 to 64 bytes")
	case s.ID == "" || len(s.ID) > MaxIDLength:
		return InvalidParam(at+"id", "must have 1 to 64 bytes")
	case s.At <= 0:
		return InvalidParam(at+"at", "must be a time in Unix ms")
	case len(s.Reply) != SealedKeySize:
		return InvalidParam(at+"reply", "must have 32 bytes")
	}
	return nil
}

// Wrap is the payload as it goes over the wire.
func (s *Sealed) Wrap() json.RawMessage {
	data, _ := json.Marshal(struct { // strings, numbers and bytes never fail
		Sealed *Sealed `json:"sealed"`
	}{s})
	return data
}
