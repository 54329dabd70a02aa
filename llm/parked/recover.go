package parked

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// recover has everything taken up that need not wait: what an earlier process
// went on with, and what was decided while none was there. Whoever takes a task
// up replaces its record, so that of two only one goes on.
func (s *Service) recover(ctx context.Context) {
	for _, r := range s.opts.Tasks.All() {
		if r.State == Running {
			s.enqueue(r.ID)
		}
	}
	s.tidy(ctx)
}

// tidy takes up what waits for no decision any more, ends the tasks whose credentials have ended, takes back the questions that
// no task waits for, and forgets tasks that ended long ago.
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

// disownedFor is the time that a task is watched for that may be stored although its
// caller was told otherwise.
const disownedFor = 10 * time.Minute

// keeps reports whether a task waits for an approval, or makes its call by it.
func (s *Service) keeps(task, approval string) bool {
	if s.opts.KeptElse != nil && s.opts.KeptElse(task, approval) {
		return true
	}
	r, _, ok := s.opts.Tasks.Get(task)
	return ok && !r.State.Over() && r.Approval == approval
}

// revoke ends a task that waits and whose credential has ended.
func (s *Service) revoke(ctx context.Context, id protocol.TaskID, why error) {
	t, _ := s.enter(ctx, id)
	if t == nil {
		return // whoever goes on with it is asked for the credential, too
	}
	defer s.giveBack(id, t)
	r, revision, ok := s.opts.Tasks.Get(string(id))
	if !ok || r.State != Waiting || s.underWay(r) {
		return
	}
	ended := s.over(r, nil, why)
	if _, err := s.opts.Tasks.Update(ctx, string(id), ended, revision); err != nil {
		return // it is looked at again
	}
	s.withdraw(ctx, ended, "the credential with which the call was asked for is no longer valid")
	s.publishEnd(ended, nil)
}
