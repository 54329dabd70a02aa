package approval

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// MaxLife is the longest time until an approval expires.
const MaxLife = 90 * 24 * time.Hour

// life is the time until an approval of a parked call expires: that of its rule, or
// else of its risk, the shortest of several, and no longer than the caller's patience.
func (s *Service) life(rule *Rule, t *tools.Tool, x *tools.Execution) time.Duration {
	life := cmp.Or(rule.Life, shortest(risksOf(t, x), s.opts.LifeOf), s.opts.Life)
	if x.Patience > 0 {
		life = min(life, x.Patience)
	}
	return min(life, MaxLife)
}

// useFor is the time within which a given approval can be used: that of the call's
// rule, or else of its risk, the shortest of several.
func (s *Service) useFor(rule *Rule, t *tools.Tool, x *tools.Execution) time.Duration {
	return cmp.Or(rule.Use, shortest(risksOf(t, x), s.opts.UseOf), s.opts.Use)
}

// shortest is the shortest configured time of some risks, 0 for none.
func shortest(risks []string, of map[string]time.Duration) (least time.Duration) {
	for _, risk := range risks {
		if own := of[strings.ToLower(risk)]; own > 0 && (least == 0 || own < least) {
			least = own
		}
	}
	return least
}

// propose returns the draft of an approval in a [tools.Question]. The caller parks the
// call and then opens the approval.
func (s *Service) propose(r *Record) error {
	if before := s.deniedBefore(r, s.opts.Now()); before != nil {
		return denied(before)
	}
	return &tools.Question{Approval: r.ID, Draft: r}
}

// Open stores and publishes the approval of a parked call. An approval that was opened
// before a crash stays as it is.
func (s *Service) Open(ctx context.Context, r *Record) error {
	step := s.happens(r, "approval.requested")
	_, err := s.opts.Approvals.Create(ctx, r.ID, r)
	switch {
	case protocol.CodeOf(err) == protocol.AlreadyExists:
		return nil
	case err != nil:
		return err
	}
	s.tell(r, step, nil)
	if r.Replaces != "" { // after a failure here Abandoned finds it
		_ = s.Withdraw(ctx, r.Replaces, "the call is not the one that was approved; "+r.ID+" asks about the present one")
	}
	return nil
}

// Withdraw withdraws the approval of a call that must not be made any more. An approval
// that is decided at the same moment stays decided, without an effect.
func (s *Service) Withdraw(ctx context.Context, id, why string) error {
	return s.takeBack(ctx, id, why, "")
}

// Cancel withdraws an approval because the task of its call is cancelled. From then on
// [Service.CancelledFor] returns the reason at every bridge, so that none resumes the
// task with the withdrawal as the result of the call.
func (s *Service) Cancel(ctx context.Context, id, reason string) error {
	return s.takeBack(ctx, id, "the task was cancelled: "+reason, cmp.Or(reason, "cancelled"))
}

// CancelledFor is the reason of a task's cancellation while its approval was pending or
// unused, "" for none.
func (s *Service) CancelledFor(id string) string {
	r, _, ok := s.opts.Approvals.Get(id)
	if !ok {
		return ""
	}
	return r.Cancelled
}

func (s *Service) takeBack(ctx context.Context, id, why, cancelled string) error {
	release, err := s.deciding.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	r, revision, ok := s.opts.Approvals.Get(id)
	if !ok || r.State.over() {
		return nil
	}
	next := *r
	next.Cancelled = cancelled
	_, err = s.end(ctx, &next, revision, Withdrawn, why)
	return err
}

// Known reports whether there is an approval of an id, and whether it is no longer
// pending.
func (s *Service) Known(id string) (known, settled bool) {
	r, _, ok := s.opts.Approvals.Get(id)
	return ok, ok && r.State != Pending
}

// UsedAt is the time at which an approval was used for its call, in Unix ms; 0 if it
// was not.
func (s *Service) UsedAt(id string) int64 {
	r, _, ok := s.opts.Approvals.Get(id)
	if !ok || r.State != Used {
		return 0
	}
	return max(r.EndedAt, 1)
}

// OnSettled has f called with the task of every parked call whose approval is no longer
// pending. f must not block. Call OnSettled before the table is loaded.
func (s *Service) OnSettled(f func(task string)) {
	s.opts.Approvals.OnChange(func(_ string, old, now *Record) {
		if now != nil && now.Parked && !now.Elsewhere && now.State != Pending && (old == nil || old.State == Pending) {
			f(now.Task)
		}
	})
}

// OnChange has f called after every change of an approval. f must not block. Call OnChange
// before the table is loaded.
func (s *Service) OnChange(f func()) {
	s.opts.Approvals.OnChange(func(string, *Record, *Record) { f() })
}

// OnEdited has f called after every change of a call's arguments. f must not block.
// Call OnEdited before the table is loaded.
func (s *Service) OnEdited(f func()) {
	s.opts.Approvals.OnChange(func(_ string, old, now *Record) {
		if old != nil && now != nil && now.Edits != old.Edits {
			f()
		}
	})
}

// Abandoned lists the open approvals of parked calls for which waits, which knows the
// tasks, reports false.
func (s *Service) Abandoned(waits func(task, approval string) bool) (ids []string) {
	for id, r := range s.opts.Approvals.All() {
		if r.Parked && !r.Elsewhere && !r.State.over() && !waits(r.Task, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
