package approval

import (
	"cmp"
	"context"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// stale reports whether an approval was given too long ago: what people agreed to
// then they may not want any more, as after a bridge was away for days.
func (s *Service) stale(r *Record) bool {
	return r.State == Approved && ms(s.opts.Now())-r.DecidedAt >= cmp.Or(r.UseFor, s.opts.Use.Milliseconds())
}

// renew has a stale approval wait again, without the votes that it had. One whose time
// to decide is over expires.
func (s *Service) renew(ctx context.Context, r *Record, revision uint64) error {
	if ms(s.opts.Now()) < r.Expires {
		return s.reopen(ctx, r.undecided(nil), revision)
	}
	if _, err := s.end(ctx, r, revision, Expired, "it was approved, and could not be made in time"); err != nil {
		return protocol.Errorf(protocol.StoreUnavailable, "the call was approved too long ago, and that could not be noted").With("approval_id", r.ID).With("reason", "fault")
	}
	return staleness(r)
}

// staleness is the model's text about a call that was approved and not made in time.
func staleness(r *Record) error {
	approved := time.UnixMilli(r.DecidedAt).UTC().Format(time.RFC3339)
	return protocol.Errorf(protocol.PermissionDenied, "%s approved the call at %s; it could not be made in time, and nobody approved it again", r.DecidedBy, approved).
		With("approval_id", r.ID).With("reason", "expired")
}
