package approval

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// graceForWaiters is the time for which an approval without a decision, after its end, is
// left to who waits for it.
const graceForWaiters = 60_000 // ms

// OnSweep says which approvals are not to be forgotten yet: those by which a kept call
// goes on. It is said before the service runs.
func (s *Service) OnSweep(keeps func(task, approval string) bool) { s.keeps = keeps }

// sweep forgets approvals that are over for long, or too many of them: of one
// requester, or of one space, so that nobody has those of others forgotten.
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
