package a2a

import (
	"context"

	"github.com/aibridge/aibridge/internal/records"
)

// Reseal seals anew the credentials of agents that older keys have sealed, and
// returns their number. An unreadable one stays as it is.
func (s *Service) Reseal(ctx context.Context) (n int, err error) {
	for key := range s.opts.Table.All() {
		changed := false
		_, _, err := records.Change(ctx, s.opts.Table, key, func(a *Agent, _ uint64) (*Agent, error) {
			if changed = false; a == nil || len(a.Credential) == 0 {
				return a, nil
			}
			sealed, another, err := s.opts.Sealer.Reseal(a.Credential, purpose(a.Space, a.ID, a.URL))
			if err != nil {
				s.opts.Log.WarnContext(ctx, "the credential for an agent cannot be read", "agent", a.ID, "space", a.Space, "error", err)
				return a, nil
			}
			if !another {
				return a, nil
			}
			anew := *a
			anew.Credential, changed = sealed, true
			return &anew, nil
		})
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}
