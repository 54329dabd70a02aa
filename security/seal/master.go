package seal

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/security/masterkey"
)

// wrap seals a data key with the active version of the master key.
func (r *Ring) wrap(k *DataKey, id string, key []byte) error {
	version, master, err := r.masters.Active()
	if err != nil {
		return ErrOtherMaster
	}
	box, err := aead(master)
	if err != nil {
		return err
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	k.Box, k.Master = box.Seal(slices.Clone(nonce), nonce, key, label(id)), version
	return nil
}

// unwrap opens a data key with whichever version has sealed it.
func (r *Ring) unwrap(k *DataKey, id string) ([]byte, error) {
	if len(k.Box) < nonceSize {
		return nil, ErrDamaged
	}
	for _, master := range r.masters.Keys() {
		box, err := aead(master)
		if err != nil {
			return nil, err
		}
		if key, err := box.Open(nil, k.Box[:nonceSize], k.Box[nonceSize:], label(id)); err == nil {
			return key, nil
		}
	}
	return nil, ErrOtherMaster
}

// Rewrap seals the data keys anew that an older version of the master key has
// sealed, and counts them. Those that cannot be opened stay as they are.
func (r *Ring) Rewrap(ctx context.Context) (n int, err error) {
	if !r.masters.Rotated() {
		return 0, nil
	}
	version, _, err := r.masters.Active()
	if err != nil {
		return 0, err
	}
	for _, id := range r.ids() {
		changed, err := r.rewrap(ctx, id, version)
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}

func (r *Ring) rewrap(ctx context.Context, id, version string) (changed bool, err error) {
	_, _, err = records.Change(ctx, r.keys, id, func(k *DataKey, _ uint64) (*DataKey, error) {
		if changed = false; k == nil || k.Master == version {
			return k, nil
		}
		key, err := r.unwrap(k, id)
		if err != nil {
			return k, nil
		}
		defer clear(key)
		anew := *k
		if err := r.wrap(&anew, id, key); err != nil {
			return nil, err
		}
		changed = anew.Master != k.Master
		return &anew, nil
	})
	return changed && err == nil, err
}

// Wrapped counts the data keys that each version of the master key has sealed, by
// its id.
func (r *Ring) Wrapped() map[string]int {
	all := make(map[string]int)
	for _, k := range r.keys.All() {
		if k.Master == "" {
			all[r.masters.First()]++
			continue
		}
		all[k.Master]++
	}
	return all
}

// Follow puts the active version of the master key into the file of this bridge, and
// seals with it the data keys that an older one has sealed. It returns how many.
func (s *Store) Follow(ctx context.Context) (n int, err error) {
	n, err = s.Rewrap(ctx)
	return n, errors.Join(err, s.File.Adopt(ctx))
}

var _ Masters = (*masterkey.File)(nil)
