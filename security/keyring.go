package security

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security/keyfile"
)

// AdminKeyFile is the file, in the data folder and for its owner's eyes only,
// that holds the administrator's key made at the first start.
const AdminKeyFile = "admin.key"

// PepperFile is the file in the data folder that makes stolen MACs of API keys
// useless. Bridges that share a state share it.
const PepperFile = "pepper"

// administratorID is the principal of the key made at the first start.
const administratorID = "administrator"

// A Keyring recognises API keys.
type Keyring struct {
	keys   records.Table[Key]
	pepper []byte
	id     []byte // of the pepper
	decoy  []byte // compared with when the id is unknown, so that both take as long
	now    func() time.Time
	used   func(id string) // is told of keys that were recognised; nil tells nobody
}

// OpenKeyring opens the keyring of the bridge whose data folder is dir. The
// pepper that makes stolen MACs useless is a file of its own there.
func OpenKeyring(dir string, keys records.Table[Key]) (*Keyring, error) {
	pepper, err := keyfile.ReadOrMake(filepath.Join(dir, PepperFile), func() []byte {
		pepper := make([]byte, pepperBytes)
		_, _ = rand.Read(pepper) // never fails
		return pepper
	})
	if err != nil {
		return nil, fmt.Errorf("open the pepper: %w", err)
	}
	if len(pepper) != pepperBytes {
		return nil, fmt.Errorf("the pepper has %d bytes instead of %d: keys cannot be recognised", len(pepper), pepperBytes)
	}
	return &Keyring{keys: keys, pepper: pepper, id: mac(pepper, "", "")[:pepperIDBytes], decoy: mac(pepper, "", "decoy"), now: time.Now}, nil
}

// EnsureAdministrator makes the administrator's key if there is none yet and
// reports whether it did. A key that was made under another pepper, as in a
// store that was restored without its pepper, opens nothing and does not count,
// nor does one that was revoked or has expired.
// The file is written first: a crash in between leaves a key that the next
// start puts on the ring.
func (r *Keyring) EnsureAdministrator(ctx context.Context, dir string, now time.Time) (made bool, err error) {
	for _, key := range r.keys.All() {
		if key.principal().Administrator() && bytes.Equal(key.Pepper, r.id) && key.live(now) {
			return false, nil
		}
	}
	path := filepath.Join(dir, AdminKeyFile)
	if err := r.discardDead(path, now); err != nil {
		return false, err
	}
	text, err := keyfile.ReadOrMake(path, func() []byte {
		_, _, text := newKey()
		return []byte(text + "\n")
	})
	if err != nil {
		return false, fmt.Errorf("write the administrator's key: %w", err)
	}
	id, secret, ok := parseKey(strings.TrimSpace(string(text)))
	if !ok {
		return false, fmt.Errorf("%s does not hold an API key; remove it to have a new one made", AdminKeyFile)
	}
	_, err = r.keys.Put(ctx, id, &Key{
		ID:        id,
		Principal: administratorID,
		Kind:      protocol.KindOperator,
		Space:     protocol.DefaultSpace,
		Roles:     []string{protocol.RoleAdministrator},
		MAC:       mac(r.pepper, id, secret),
		Pepper:    r.id,
		Created:   now.UTC(),
	})
	return err == nil, err
}

// discardDead removes the file of a key that was revoked or has expired, so
// that no start brings it back to life.
func (r *Keyring) discardDead(path string, now time.Time) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	id, _, _ := parseKey(strings.TrimSpace(string(text)))
	if key, _, ok := r.keys.Get(id); ok && !key.live(now) {
		return os.Remove(path)
	}
	return nil
}

// Recognise returns the principal an API key stands for.
func (r *Keyring) Recognise(text string) (*protocol.Principal, bool) {
	id, secret, ok := parseKey(text)
	if !ok {
		return nil, false
	}
	shown := mac(r.pepper, id, secret)
	key, _, ok := r.keys.Get(id)
	if !ok {
		_ = hmac.Equal(shown, r.decoy)
		return nil, false
	}
	if !hmac.Equal(shown, key.MAC) || !key.live(r.now()) {
		return nil, false
	}
	if r.used != nil {
		r.used(id)
	}
	return key.principal(), true
}

// wrong says why an API key is not recognised, and whose it is, as far as its id
// tells.
func (r *Keyring) wrong(text string) (of protocol.Party, why error) {
	id, _, ok := parseKey(text)
	if !ok {
		return of, errors.New("what was shown does not have the form of an API key")
	}
	key, _, ok := r.keys.Get(id)
	switch {
	case !ok:
		return of, fmt.Errorf("there is no API key %s", id)
	case !key.Revoked.IsZero():
		return key.Party(), protocol.Errorf(protocol.CredentialInvalid, "API key %s was revoked", id).With("reason", "revoked")
	case !key.live(r.now()):
		return key.Party(), protocol.Errorf(protocol.CredentialInvalid, "API key %s has expired", id).With("reason", grant.ReasonExpired)
	}
	return key.Party(), fmt.Errorf("the secret of API key %s is wrong", id)
}

// MAC is a keyed hash of a secret of another kind than API keys, by which the
// secret is recognised and not found: under the pepper, like theirs.
func (r *Keyring) MAC(kind, id, secret string) []byte { return mac(r.pepper, kind+"/"+id, secret) }

// Allowance is what a key may ask of language models, nil if nothing limits it.
func (r *Keyring) Allowance(id string) *protocol.Allowance {
	if key, _, ok := r.keys.Get(id); ok {
		return key.LLM
	}
	return nil
}
