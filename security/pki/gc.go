package pki

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The times for which records of no more use are kept for people to look at.
const (
	keepExpired   = 365 * day // certificates after their end
	keepDecided   = 30 * day  // requests after their decision, or without one
	keepTokens    = 7 * day   // claim tokens after their end
	collectAtOnce = 1000
	maxRequests   = 10_000 // that wait or are kept
	maxOfOneHand  = 100    // pending requests of one principal
	maxTokens     = 10_000
)

// collectGarbage forgets records that have been of no use for long.
func (s *Service) collectGarbage(ctx context.Context, now time.Time) {
	left := collectAtOnce
	for _, e := range s.index.all() {
		if left > 0 && now.Sub(e.notAfter) > keepExpired {
			left--
			s.forget(ctx, "certificate", s.opts.Certificates.Delete(ctx, string(e.Serial), 0))
		}
	}
	for key, r := range s.opts.Requests.All() {
		if left > 0 && now.Sub(r.since()) > keepDecided {
			left--
			s.forget(ctx, "request", s.opts.Requests.Delete(ctx, key, 0))
		}
	}
	for key, t := range s.opts.Tokens.All() {
		if left > 0 && now.Sub(t.Expires) > keepTokens {
			left--
			s.forget(ctx, "token", s.opts.Tokens.Delete(ctx, key, 0))
		}
	}
}

// since is the time of a request's last change.
func (r *Request) since() time.Time {
	if r.DecidedAt.IsZero() {
		return r.At
	}
	return r.DecidedAt
}

func (s *Service) forget(ctx context.Context, what string, err error) {
	if err != nil && protocol.CodeOf(err) != protocol.NotFound && ctx.Err() == nil {
		s.opts.Log.Warn("an old "+what+" is not removed", "error", err)
	}
}
