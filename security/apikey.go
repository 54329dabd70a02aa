package security

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// An API key reads abk_<id>.<secret>: the id says which key it is and may be
// shown anywhere, the secret is 256 random bits in URL-safe base64.
const (
	keyPrefix   = "abk_"
	keyIDBytes  = 8
	secretBytes = 32
	pepperBytes = 32

	pepperIDBytes = 8
	keyIDLength   = keyIDBytes * 2
	secretLength  = (secretBytes*8 + 5) / 6
)

// A Key is the bridge's record of an API key: enough to recognise it, not
// enough to use it.
type Key struct {
	ID        string              `json:"id"`
	Name      string              `json:"name,omitempty"` // for people
	Principal string              `json:"principal"`      // id of the principal it stands for
	Kind      protocol.Kind       `json:"kind"`
	Space     protocol.SpaceID    `json:"space"`
	Roles     []string            `json:"roles"`
	Scopes    []string            `json:"scopes,omitempty"`     // actions it is limited to; none limits nothing
	LLM       *protocol.Allowance `json:"llm,omitempty"`        // its limits for language models; nil limits nothing
	MAC       []byte              `json:"mac"`                  // HMAC-SHA-256 of id and secret under the pepper
	Pepper    []byte              `json:"pepper"`               // names the pepper, and reveals nothing about it
	Access    bool                `json:"access,omitempty"`     // requests can be signed with its access key, see [Keyring.access]
	AccessBox []byte              `json:"access_box,omitempty"` // the secret of that, sealed; nil while it follows from MAC and pepper
	Created   time.Time           `json:"created"`
	CreatedBy string              `json:"created_by,omitempty"` // id of the principal that made it
	Expires   time.Time           `json:"expires,omitzero"`
	Revoked   time.Time           `json:"revoked,omitzero"`
	Reason    string              `json:"reason,omitempty"` // why it was revoked
}

// KeptFor names the party whose budget of records the key uses up: its space.
func (k *Key) KeptFor() protocol.Party { return protocol.Party{Space: k.Space} }

// Party is the party that the key stands for.
func (k *Key) Party() protocol.Party {
	return protocol.Party{Kind: k.Kind, Space: k.Space, ID: k.Principal}
}

// principal is the principal that the key stands for.
func (k *Key) principal() *protocol.Principal {
	return &protocol.Principal{
		Kind: k.Kind, ID: k.Principal, Space: k.Space, Roles: k.Roles, Scopes: k.Scopes,
		Credential: k.ID, Method: protocol.MethodAPIKey, Expires: k.Expires,
	}
}

// SameRights reports whether a changed key gives the same rights: only the marks by
// which it is recognised may differ.
func (k *Key) SameRights(now *Key) bool {
	if now == nil {
		return false
	}
	before, after := *k, *now
	for _, key := range []*Key{&before, &after} {
		key.MAC, key.Pepper, key.AccessBox = nil, nil, nil
	}
	return records.Same(&before, &after)
}

// live reports whether the key opens anything at a time.
func (k *Key) live(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// newKey makes up an API key. The text is shown to its owner and forgotten.
func newKey() (id, secret, text string) {
	raw := make([]byte, keyIDBytes+secretBytes)
	_, _ = rand.Read(raw) // never fails
	id = hex.EncodeToString(raw[:keyIDBytes])
	secret = base64.RawURLEncoding.EncodeToString(raw[keyIDBytes:])
	return id, secret, keyPrefix + id + "." + secret
}

// parseKey takes an API key apart. Anything but the exact form is refused.
func parseKey(text string) (id, secret string, ok bool) {
	text, ok = strings.CutPrefix(text, keyPrefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(text, ".")
	if !ok || len(id) != keyIDLength || len(secret) != secretLength {
		return "", "", false
	}
	if _, err := hex.DecodeString(id); err != nil || strings.ToLower(id) != id {
		return "", "", false
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(secret); err != nil {
		return "", "", false
	}
	return id, secret, true
}

// mac returns the MAC by which a key is recognised.
func mac(pepper []byte, id, secret string) []byte {
	h := hmac.New(sha256.New, pepper)
	h.Write([]byte(id + "." + secret))
	return h.Sum(nil)
}
