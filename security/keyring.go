package security

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/aibridge/aibridge/security/masterkey"
)

// AdminKeyFile is the file, in the data folder and for its owner's eyes only,
// that holds the administrator's key made at the first start.
const AdminKeyFile = "admin.key"

// PepperFile is the file in the data folder that makes stolen MACs of API keys
// useless. Bridges that share a state share it.
const PepperFile = masterkey.PepperFile

// firstPepper is the number of the pepper that is a file.
const firstPepper = 1

// administratorID is the principal of the key made at the first start.
const administratorID = "administrator"

// A Keyring recognises API keys.
type Keyring struct {
	keys    records.Table[Key]
	peppers *peppers
	now     func() time.Time
	used    func(id string)                           // called with the id of every recognised key; optional
	aged    func(key *Key, under *pepper, mac []byte) // called with keys of older peppers, and their MACs under the newest; optional
}

// NewPepper is the content of a new [PepperFile].
func NewPepper() []byte {
	pepper := make([]byte, pepperBytes)
	_, _ = rand.Read(pepper) // never fails
	return pepper
}

// OpenKeyring opens the keyring of the bridge whose data folder is dir. The
// pepper that makes stolen MACs useless is a file of its own there.
func OpenKeyring(dir string, keys records.Table[Key]) (*Keyring, error) {
	pepper, err := keyfile.ReadOrMake(filepath.Join(dir, PepperFile), NewPepper)
	if err != nil {
		return nil, fmt.Errorf("open the pepper: %w", err)
	}
	if len(pepper) != pepperBytes {
		return nil, fmt.Errorf("the pepper has %d bytes instead of %d: keys cannot be recognised", len(pepper), pepperBytes)
	}
	ring := &Keyring{keys: keys, now: time.Now}
	ring.peppers = &peppers{file: newPepper(firstPepper, pepper), now: func() time.Time { return ring.now() }}
	return ring, nil
}

// Rotate has the pepper have versions, which are in a table and sealed there. It is
// called before the table is loaded.
func (r *Keyring) Rotate(versions records.Table[PepperRecord], sealer Sealer) {
	r.peppers.table, r.peppers.sealer = versions, sealer
	versions.OnChange(func(string, *PepperRecord, *PepperRecord) { r.peppers.changes.Add(1) })
}

// Fingerprint tells the pepper of the file, and so the bridges that share it, from
// all others. It is no secret.
func (r *Keyring) Fingerprint() string { return hex.EncodeToString(r.peppers.file.id) }

// EnsureAdministrator makes the administrator's key if there is none yet and
// reports whether it did. A key under another pepper, as in a store that was
// restored without its pepper, does not count, nor does one that was revoked or has
// expired. The file is written first: a crash in between leaves a key that the next
// start adds.
func (r *Keyring) EnsureAdministrator(ctx context.Context, dir string, now time.Time) (made bool, err error) {
	for _, key := range r.keys.All() {
		if key.principal().Administrator() && r.peppers.of(key.Pepper) != nil && key.live(now) {
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
	under := r.peppers.active()
	_, err = r.keys.Put(ctx, id, &Key{
		ID:        id,
		Principal: administratorID,
		Kind:      protocol.KindOperator,
		Space:     protocol.DefaultSpace,
		Roles:     []string{protocol.RoleAdministrator},
		MAC:       mac(under.secret, id, secret),
		Pepper:    under.id,
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

// Recognise returns the principal of an API key.
func (r *Keyring) Recognise(text string) (*protocol.Principal, bool) {
	id, secret, ok := parseKey(text)
	if !ok {
		return nil, false
	}
	active := r.peppers.active()
	key, _, ok := r.keys.Get(id)
	var under *pepper
	if ok {
		under = r.peppers.of(key.Pepper)
	}
	if under == nil {
		_ = hmac.Equal(mac(active.secret, id, secret), active.decoy)
		return nil, false
	}
	if !hmac.Equal(mac(under.secret, id, secret), key.MAC) || !key.live(r.now()) {
		return nil, false
	}
	if r.used != nil {
		r.used(id)
	}
	if under != active && r.aged != nil {
		r.aged(key, active, mac(active.secret, id, secret))
	}
	return key.principal(), true
}

// wrong is the reason why an API key is not recognised, with its owner, as far as
// its id tells.
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

// Derive returns a secret that all bridges with the same file have, whichever
// versions of the pepper they know. It needs no table.
func (r *Keyring) Derive(kind, id, secret string) []byte {
	return mac(r.peppers.file.secret, kind+"/"+id, secret)
}

// Stamp is a keyed hash of a secret of another kind than API keys, by which the
// secret is recognised and not found: under the pepper, like theirs. It begins with
// the id of the pepper, unless that is the file's.
func (r *Keyring) Stamp(kind, id, secret string) []byte {
	active := r.peppers.active()
	stamp := mac(active.secret, kind+"/"+id, secret)
	if active.version == firstPepper {
		return stamp
	}
	return append(bytes.Clone(active.id), stamp...)
}

// Stamped reports whether a stamp is of a secret.
func (r *Keyring) Stamped(stamp []byte, kind, id, secret string) bool {
	pepper, sum := splitStamp(stamp)
	under := r.peppers.of(pepper)
	return under != nil && hmac.Equal(mac(under.secret, kind+"/"+id, secret), sum)
}

// splitStamp returns the id of a stamp's pepper, none for the file's, and its hash.
func splitStamp(stamp []byte) (pepper, sum []byte) {
	if len(stamp) <= sha256.Size {
		return nil, stamp
	}
	return stamp[:len(stamp)-sha256.Size], stamp[len(stamp)-sha256.Size:]
}

// Allowance is the part of the language models that a key may ask, nil if nothing
// limits it.
func (r *Keyring) Allowance(id string) *protocol.Allowance {
	if key, _, ok := r.keys.Get(id); ok {
		return key.LLM
	}
	return nil
}
