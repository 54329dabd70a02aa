package approval

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// graceForWaiters is the time after the expiry within which the waiting call ends its
// approval itself.
const graceForWaiters = 60_000 // ms

// OnSweep sets the function that reports whether an old approval must stay, since a
// parked call still uses it. Call it before the service runs.
func (s *Service) OnSweep(keeps func(task, approval string) bool) { s.keeps = keeps }

// sweep removes approvals in a final state that are too old, or too many for their
// requester or space. The separate limits prevent that one requester displaces the
// approvals of others.
func (s *Service) sweep(ctx context.Context) {
	now := ms(s.opts.Now())
	var over []*Record
	for _, r := range s.opts.Approvals.All() {
		if r.State.over() {
			over = append(over, r)
		}
	}
	slices.SortFunc(over, func(a, b *Record) int { return strings.Compare(b.ID, a.ID) }) // ids grow with time
	kept, own := make(map[protocol.SpaceID]int), make(map[protocol.Party]int)
	for _, r := range over {
		space := r.party().Space
		if own[r.party()]++; own[r.party()] <= s.opts.MaxOwnKept && kept[space] < s.opts.MaxKept && now-max(r.AskedAt, r.DecidedAt, r.EndedAt) < s.opts.Keep.Milliseconds() {
			kept[space]++
			continue
		}
		if r.Parked && s.keeps != nil && s.keeps(r.Task, r.ID) {
			continue
		}
		if err := s.opts.Approvals.Delete(ctx, r.ID, 0); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("an old approval is not forgotten", "approval", r.ID, "error", err)
		}
		s.forget(ctx, r.ID)
	}
}
