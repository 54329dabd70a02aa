// Package seal encrypts values so that a stolen disk or backup does not reveal
// them. There may be several data keys: new values are sealed with the newest, and
// each opens the values it has sealed, so that keys are rotated while the bridge
// runs. The data keys themselves are kept sealed with a master key, which is a file
// beside the data.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
)

// MasterKeySize is the size of the master key, in bytes.
const MasterKeySize = 32

// Sealed values are a version, the id of the data key, a nonce, and the box of
// AES-256-GCM, with version, id and purpose as additional data.
const (
	version   = 1
	idSize    = 8
	keySize   = 32
	nonceSize = 12
	overhead  = 1 + idSize + nonceSize
)

var (
	// ErrUnknownKey says that the data key is not there: another ring made it, or
	// it was forgotten.
	ErrUnknownKey = errors.New("seal: sealed with a key that is not known")
	// ErrDamaged says that a sealed value was changed, is for another purpose,
	// or is not sealed at all.
	ErrDamaged = errors.New("seal: damaged, or sealed for another purpose")
	// ErrOtherMaster says that data keys were sealed with another master key.
	ErrOtherMaster = errors.New("seal: the master key is not the one that the data keys were sealed with")
)

// A DataKey is a data key at rest.
type DataKey struct {
	Created time.Time `json:"created"`
	Box     []byte    `json:"box"`              // the key, sealed with the master key: nonce, box
	Master  string    `json:"master,omitempty"` // id of the version of the master key; "" for the first
	Staged  bool      `json:"staged,omitempty"` // nothing is sealed with it yet
}

// Masters are the versions of the master key.
type Masters interface {
	// Active is the version that data keys are sealed with; it fails with
	// [masterkey.ErrOther].
	Active() (id string, key []byte, err error)
	// Keys are the versions that there are.
	Keys() [][]byte
	// First is the id of the first version.
	First() string
	// Rotated reports whether there was ever another than the first.
	Rotated() bool
}

// fixed is a master key without versions.
type fixed []byte

func (f fixed) Active() (id string, key []byte, err error) { return "", f, nil }
func (f fixed) Keys() [][]byte                             { return [][]byte{f} }
func (fixed) First() string                                { return "" }
func (fixed) Rotated() bool                                { return false }

// A Ring seals and opens. It is safe for use by several goroutines, and so are
// several rings on the same keys.
type Ring struct {
	keys    records.Table[DataKey]
	masters Masters
	now     func() time.Time

	mu   sync.Mutex
	open map[string]cipher.AEAD // by id
}

// New makes a ring of the data keys in a table, which are there by their ids.
// The table need not be loaded yet.
func New(keys records.Table[DataKey], master []byte) (*Ring, error) {
	if len(master) != MasterKeySize {
		return nil, fmt.Errorf("seal: the master key has %d bytes instead of %d", len(master), MasterKeySize)
	}
	return NewUnder(keys, fixed(master)), nil
}

// NewUnder makes a ring of data keys under a master key that has versions.
func NewUnder(keys records.Table[DataKey], masters Masters) *Ring {
	return &Ring{keys: keys, masters: masters, now: time.Now, open: make(map[string]cipher.AEAD)}
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Check makes the first data key if there is none, and fails if the newest cannot
// be opened. It returns the number of older ones that cannot be opened.
func (r *Ring) Check(ctx context.Context) (lost int, err error) {
	newest, err := r.newest()
	if errors.Is(err, ErrUnknownKey) {
		_, err = r.Rotate(ctx)
		return 0, err
	}
	for _, id := range r.ids() {
		if _, err := r.box(id); err != nil && id == newest {
			return 0, err
		} else if err != nil {
			lost++
		}
	}
	return lost, nil
}

// ids lists the ids of the data keys, the newest first.
func (r *Ring) ids() []string {
	type dated struct {
		id string
		at time.Time
	}
	var all []dated
	for id, k := range r.keys.All() {
		all = append(all, dated{id, k.Created})
	}
	slices.SortFunc(all, func(a, b dated) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return strings.Compare(b.id, a.id)
	})
	ids := make([]string, len(all))
	for i, k := range all {
		ids[i] = k.id
	}
	return ids
}

// newest is the id of the data key that seals.
func (r *Ring) newest() (string, error) {
	newest, at := "", time.Time{}
	for id, k := range r.keys.All() {
		if k.Staged {
			continue
		}
		if newest == "" || k.Created.After(at) || k.Created.Equal(at) && id > newest {
			newest, at = id, k.Created
		}
	}
	if newest == "" {
		return "", ErrUnknownKey
	}
	return newest, nil
}

// Rotate makes a new data key, which seals from then on, on every bridge.
func (r *Ring) Rotate(ctx context.Context) (id string, err error) {
	if id, err = r.Stage(ctx); err == nil {
		err = r.Activate(ctx, id)
	}
	return id, err
}

// Stage makes a data key that opens and does not seal yet, so that all bridges can
// know it before anything is sealed with it. If there is one already, it is that.
func (r *Ring) Stage(ctx context.Context) (id string, err error) {
	made := r.now().UTC()
	for _, id := range r.ids() { // the newest first
		k, _, ok := r.keys.Get(id)
		if !ok {
			continue
		}
		if _, err := r.box(id); k.Staged && err == nil {
			return id, nil
		}
		if !made.After(k.Created) { // clocks differ between bridges, and go back
			made = k.Created.Add(time.Nanosecond)
		}
	}
	random := make([]byte, idSize+keySize)
	_, _ = rand.Read(random) // never fails
	id = hex.EncodeToString(random[:idSize])
	key := random[idSize:]
	defer clear(key)
	fresh := &DataKey{Created: made, Staged: true}
	if err := r.wrap(fresh, id, key); err != nil {
		return "", err
	}
	_, err = r.keys.Create(ctx, id, fresh)
	return id, err
}

// Activate has a data key that was staged seal from now on, on every bridge.
func (r *Ring) Activate(ctx context.Context, id string) error {
	if _, err := r.box(id); err != nil {
		return err
	}
	_, _, err := records.Change(ctx, r.keys, id, func(k *DataKey, _ uint64) (*DataKey, error) {
		if k == nil {
			return nil, ErrUnknownKey
		}
		active := *k
		active.Staged = false
		return &active, nil
	})
	return err
}

func label(id string) []byte { return []byte("aibridge data key\x00" + id) }

// box opens a data key.
func (r *Ring) box(id string) (cipher.AEAD, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored, _, ok := r.keys.Get(id)
	if !ok {
		delete(r.open, id)
		return nil, ErrUnknownKey
	}
	if known := r.open[id]; known != nil {
		return known, nil
	}
	key, err := r.unwrap(stored, id)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	opened, err := aead(key)
	if err != nil {
		return nil, err
	}
	r.open[id] = opened
	return opened, nil
}

// Seal encrypts a value for a purpose, which is needed to open it.
func (r *Ring) Seal(plain []byte, purpose string) ([]byte, error) {
	id, err := r.newest()
	if err != nil {
		return nil, err
	}
	box, err := r.box(id)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != idSize {
		return nil, ErrUnknownKey
	}
	out := make([]byte, overhead, overhead+len(plain)+box.Overhead())
	out[0] = version
	copy(out[1:], raw)
	nonce := out[1+idSize : overhead]
	_, _ = rand.Read(nonce) // never fails
	return box.Seal(out, nonce, plain, additional(out, purpose)), nil
}

// additional returns the data that the box is bound to.
func additional(sealed []byte, purpose string) []byte {
	return append(slices.Clone(sealed[:1+idSize]), purpose...)
}

// Open decrypts a value that was sealed for the purpose.
func (r *Ring) Open(sealed []byte, purpose string) ([]byte, error) {
	id, ok := KeyOf(sealed)
	if !ok {
		return nil, ErrDamaged
	}
	box, err := r.box(id)
	if err != nil {
		return nil, err
	}
	plain, err := box.Open(nil, sealed[1+idSize:overhead], sealed[overhead:], additional(sealed, purpose))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

// KeyOf is the id of the data key that something is sealed with.
func KeyOf(sealed []byte) (id string, ok bool) {
	if len(sealed) < overhead || sealed[0] != version {
		return "", false
	}
	return hex.EncodeToString(sealed[1 : 1+idSize]), true
}

// Reseal seals anew a value that an older data key has sealed. It reports
// false, and the same bytes, for a value that the newest key has sealed
// already.
func (r *Ring) Reseal(sealed []byte, purpose string) (out []byte, changed bool, err error) {
	newest, err := r.newest()
	if err != nil {
		return nil, false, err
	}
	if id, ok := KeyOf(sealed); ok && id == newest {
		return sealed, false, nil
	}
	plain, err := r.Open(sealed, purpose)
	if err != nil {
		return nil, false, err
	}
	defer clear(plain)
	out, err = r.Seal(plain, purpose)
	return out, err == nil, err
}

// A View is a data key as operators see it.
type View struct {
	ID      string    `json:"key_id" doc:"id of the data key"`
	Created time.Time `json:"created_at" doc:"time at which it was made"`
	Seals   bool      `json:"seals" doc:"true if new values are sealed with it; the others open only"`
	Staged  bool      `json:"staged,omitempty" doc:"nothing was sealed with it yet"`
	Lost    bool      `json:"lost,omitempty" doc:"it was sealed with another master key, and opens nothing"`
}

// List lists the data keys, the newest first.
func (r *Ring) List() []View {
	var views []View
	newest, _ := r.newest()
	for _, id := range r.ids() {
		if k, _, ok := r.keys.Get(id); ok {
			_, err := r.box(id)
			views = append(views, View{ID: id, Created: k.Created, Seals: id == newest, Staged: k.Staged, Lost: err != nil})
		}
	}
	return views
}
