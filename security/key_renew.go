package security

import (
	"bytes"
	"context"

	"github.com/aibridge/aibridge/internal/records"
)

// maxRenewals bounds the keys that wait to be recognised by the newest pepper. A key
// that finds no room is renewed the next time it is shown.
const maxRenewals = 10_000

// A renewal is a key's mark under the newest pepper.
type renewal struct {
	was   *Key
	under *pepper
	mac   []byte
}

// renew notes the MAC of a key that was shown, under a newer pepper than it was made
// under.
func (s *KeyService) renew(key *Key, under *pepper, mac []byte) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if len(s.renewals) >= maxRenewals {
		return
	}
	s.renewals[key.ID] = renewal{key, under, mac}
	select {
	case s.aged <- struct{}{}:
	default:
	}
}

// storeRenewals stores the MACs of keys that were shown since the last time. A key
// that was changed meanwhile keeps that change; a MAC that is not stored is stored
// when the key is shown next.
func (s *KeyService) storeRenewals(ctx context.Context) {
	s.renewing.Lock()
	all := s.renewals
	s.renewals = make(map[string]renewal)
	s.renewing.Unlock()
	for id, r := range all {
		_, _, err := records.Change(ctx, s.keys, id, func(key *Key, _ uint64) (*Key, error) {
			if key == nil || !bytes.Equal(key.MAC, r.was.MAC) || !bytes.Equal(key.Pepper, r.was.Pepper) {
				return key, nil
			}
			return s.Ring.renewed(key, r)
		})
		if err != nil {
			s.Log.Warn("an API key is still recognised by an older pepper; it is tried again when the key is next shown", "key_id", id, "error", err)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// renewed is a key that is recognised by another pepper. The secret of its access
// key, which followed from the MAC before, is kept sealed.
func (r *Keyring) renewed(key *Key, to renewal) (*Key, error) {
	anew := *key
	if key.Access && len(key.AccessBox) == 0 {
		access, ok := r.access(key)
		if !ok {
			return key, nil
		}
		box, err := r.peppers.sealer.Seal([]byte(access.Secret), accessPurpose(key.ID))
		if err != nil {
			return nil, err
		}
		anew.AccessBox = box
	}
	anew.MAC, anew.Pepper = to.mac, to.under.id
	return &anew, nil
}
