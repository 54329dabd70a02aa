package parked

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// recover enqueues the tasks that need not wait: those that an earlier process was
// running, and those whose approvals were decided while no process ran. A job takes its
// task up by replacing the record, so that only one of two resumes it.
func (s *Service) recover(ctx context.Context) {
	for _, r := range s.opts.Tasks.All() {
		if r.State == Running {
			s.enqueue(r.ID)
		}
	}
	s.tidy(ctx)
}

// tidy enqueues waiting tasks whose approvals are settled or lost, ends tasks whose
// credentials have ended, withdraws approvals without a task, and deletes tasks that
// ended long ago.
func (s *Service) tidy(ctx context.Context) {
	var ended []*Record
	for _, r := range s.opts.Tasks.All() {
		switch {
		case r.State.Over():
			ended = append(ended, r)
		case r.State == Waiting:
			if _, err := s.opts.Grants.Principal(r.Grant); err != nil && !s.underWay(r) {
				s.revoke(ctx, r.ID, err)
			} else if known, settled := s.opts.Approvals.Known(r.Approval); !known || settled {
				s.enqueue(r.ID)
			}
		}
	}
	s.mu.Lock()
	maps.DeleteFunc(s.disowned, func(_ protocol.TaskID, since time.Time) bool { return s.opts.Now().Sub(since) > disownedFor })
	s.mu.Unlock()
	for _, id := range s.opts.Approvals.Abandoned(s.keeps) {
		_ = s.opts.Approvals.Withdraw(ctx, id, "nobody waits for it any more")
	}
	slices.SortFunc(ended, func(a, b *Record) int { return strings.Compare(string(b.ID), string(a.ID)) }) // ids grow with time
	kept, own := make(map[protocol.SpaceID]int), make(map[protocol.Party]int)
	for _, r := range ended {
		space := r.KeptFor().Space
		if own[r.KeptFor()]++; own[r.KeptFor()] <= s.opts.MaxOwnEnded && kept[space] < s.opts.MaxEnded && s.opts.Now().UnixMilli()-r.Ended < s.opts.Keep.Milliseconds() {
			kept[space]++
			continue
		}
		if err := s.opts.Tasks.Delete(ctx, string(r.ID), 0); err != nil && protocol.CodeOf(err) != protocol.NotFound && ctx.Err() == nil {
			s.opts.Log.Warn("an old task is not forgotten", "task", r.ID, "error", err)
		}
	}
}

// disownedFor is the time for which the service watches for a disowned task, which may
// be stored although its caller got an error.
const disownedFor = 10 * time.Minute

// keeps reports whether a task waits for an approval, or runs the approved call.
func (s *Service) keeps(task, approval string) bool {
	if s.opts.KeptElse != nil && s.opts.KeptElse(task, approval) {
		return true
	}
	r, _, ok := s.opts.Tasks.Get(task)
	return ok && !r.State.Over() && r.Approval == approval
}

// revoke ends a waiting task whose credential has ended.
func (s *Service) revoke(ctx context.Context, id protocol.TaskID, why error) {
	t, _ := s.enter(ctx, id)
	if t == nil {
		return // its turn checks the credential, too
	}
	defer s.giveBack(id, t)
	r, revision, ok := s.opts.Tasks.Get(string(id))
	if !ok || r.State != Waiting || s.underWay(r) {
		return
	}
	ended := s.over(r, nil, why)
	if _, err := s.opts.Tasks.Update(ctx, string(id), ended, revision); err != nil {
		return // the next tidy tries again
	}
	s.withdraw(ctx, ended, "the credential with which the call was asked for is no longer valid")
	s.publishEnd(ended, nil)
}
