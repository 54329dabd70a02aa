package approval

import (
	"cmp"
	"context"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// stale reports whether an approval was given too long ago: its deciders may have
// changed their minds, as after an outage of days.
func (s *Service) stale(r *Record) bool {
	return r.State == Approved && ms(s.opts.Now())-r.DecidedAt >= cmp.Or(r.UseFor, s.opts.Use.Milliseconds())
}

// renew returns a stale approval to state Pending, without its votes. An approval
// beyond its own time expires.
func (s *Service) renew(ctx context.Context, r *Record, revision uint64) error {
	if ms(s.opts.Now()) < r.Expires {
		return s.reopen(ctx, r.undecided(nil), revision)
	}
	if _, err := s.end(ctx, r, revision, Expired, "it was approved, and could not be made in time"); err != nil {
		return protocol.Errorf(protocol.StoreUnavailable, "the call was approved too long ago, and that could not be noted").With("approval_id", r.ID).With("reason", "fault")
	}
	return staleness(r)
}

// staleness is the error, for the model, of an approved call that was not made in time.
func staleness(r *Record) error {
	approved := time.UnixMilli(r.DecidedAt).UTC().Format(time.RFC3339)
	return protocol.Errorf(protocol.PermissionDenied, "%s approved the call at %s; it could not be made in time, and nobody approved it again", r.DecidedBy, approved).
		With("approval_id", r.ID).With("reason", "expired")
}
