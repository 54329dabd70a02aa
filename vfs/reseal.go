package vfs

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// A Resealer is a [Sealer] whose keys rotate.
type Resealer interface {
	// Reseal seals a record anew that an older key has sealed; changed is false if
	// the newest key has sealed it already.
	Reseal(sealed []byte, purpose string) (out []byte, changed bool, err error)
}

// Reseal seals anew the credentials of remote VFSs that older keys have
// sealed, and returns how many that were. One that changes meanwhile is sealed
// with the newest key by that, and one that cannot be read stays as it is.
func (s *Service) Reseal(ctx context.Context) (n int, err error) {
	sealer, ok := s.opts.Sealer.(Resealer)
	if !ok {
		return 0, nil
	}
	for key := range s.opts.Remotes.All() {
		r, revision, ok := s.opts.Remotes.Get(key)
		if !ok || len(r.Credential) == 0 {
			continue
		}
		sealed, changed, err := sealer.Reseal(r.Credential, sealPurpose(r))
		if err != nil {
			s.opts.Log.WarnContext(ctx, "the credential of a VFS cannot be read", "vfs", r.ID, "space", r.Space, "error", err)
			continue
		}
		if !changed {
			continue
		}
		anew := *r
		anew.Credential = sealed
		if _, err := s.opts.Remotes.Update(ctx, key, &anew, revision); err != nil && protocol.CodeOf(err) != protocol.RevisionConflict {
			return n, err
		}
		n++
	}
	return n, nil
}
