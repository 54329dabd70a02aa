package security

import (
	"encoding/base64"

	"github.com/aibridge/aibridge/protocol"
)

// An AccessKey is the pair that requests of S3 are signed with. It has the
// principal, the rights and the expiry of an API key, and ends with it.
type AccessKey struct {
	ID     string
	Secret string
}

// access is the access key of an API key. A signature can be checked only with the
// secret, so that a MAC in its place would not do. The secret is derived from the
// key's pepper, which is stored sealed, and the key's MAC, which is stored in the
// open, so that neither alone yields it (decision record 0044). Once the key's MAC
// is made anew, the secret is kept sealed (0051).
func (r *Keyring) access(key *Key) (AccessKey, bool) {
	id := keyPrefix + key.ID
	if len(key.AccessBox) > 0 {
		secret, err := r.peppers.sealer.Open(key.AccessBox, accessPurpose(key.ID))
		return AccessKey{id, string(secret)}, err == nil
	}
	under := r.peppers.of(key.Pepper)
	if under == nil {
		return AccessKey{}, false
	}
	return AccessKey{id, accessSecret(under, key.ID, key.MAC)}, true
}

func accessSecret(under *pepper, id string, sum []byte) string {
	return base64.RawURLEncoding.EncodeToString(mac(under.secret, "s3/"+id, string(sum)))
}

func accessPurpose(id string) string { return "access/" + id }

// recogniseAccess returns the principal of the access key whose secret made a
// signature. It takes as long for a key that does not exist.
func (r *Keyring) recogniseAccess(access string, signed func(secret string) bool) (*protocol.Principal, bool) {
	id := ""
	if len(access) == len(keyPrefix)+keyIDLength {
		id = access[len(keyPrefix):]
	}
	key, _, ok := r.keys.Get(id)
	var own AccessKey
	if ok && keyPrefix+id == access && key.Access {
		own, ok = r.access(key)
	} else {
		ok = false
	}
	if !ok {
		active := r.peppers.active()
		_ = signed(accessSecret(active, id, active.decoy))
		return nil, false
	}
	if !signed(own.Secret) || !key.live(r.now()) {
		return nil, false
	}
	if r.used != nil {
		r.used(id)
	}
	return key.principal(), true
}
