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
	s.giveUpElsewhere(ctx)
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

// giveUpElsewhere ends approvals that were given too long ago to calls at other bridges,
// which have not come for them.
func (s *Service) giveUpElsewhere(ctx context.Context) {
	for _, r := range s.opts.Approvals.All() {
		if !r.Elsewhere || !s.stale(r) {
			continue
		}
		if err := s.giveUp(ctx, r.ID); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("an approval that its site has not taken over is not ended", "approval", r.ID, "error", err)
		}
	}
}

// giveUp ends an approval if it is stale.
func (s *Service) giveUp(ctx context.Context, id string) error {
	release, err := s.deciding.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	r, revision, ok := s.opts.Approvals.Get(id)
	if !ok || !s.stale(r) {
		return nil
	}
	_, err = s.end(ctx, r, revision, Expired, "it was approved, and the site did not take that over in time")
	return err
}
