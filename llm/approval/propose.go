package approval

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// MaxLife is the longest time that a decision can be waited for.
const MaxLife = 90 * 24 * time.Hour

// life is how long a decision about a call is of use: what is configured for
// its rule, or else for its risk, the shortest if it has several, and no longer
// than the asker wants.
func (s *Service) life(rule *Rule, t *tools.Tool, x *tools.Execution) time.Duration {
	life := cmp.Or(rule.Life, shortest(risksOf(t, x), s.opts.LifeOf), s.opts.Life)
	if x.Patience > 0 {
		life = min(life, x.Patience)
	}
	return min(life, MaxLife)
}

// useFor is how long an approval of a call is of use once it was given: what is configured
// for its rule, or else for its risk, the shortest if it has several.
func (s *Service) useFor(rule *Rule, t *tools.Tool, x *tools.Execution) time.Duration {
	return cmp.Or(rule.Use, shortest(risksOf(t, x), s.opts.UseOf), s.opts.Use)
}

// shortest is the shortest time that is configured for some risks, 0 if none is.
func shortest(risks []string, of map[string]time.Duration) (least time.Duration) {
	for _, risk := range risks {
		if own := of[strings.ToLower(risk)]; own > 0 && (least == 0 || own < least) {
			least = own
		}
	}
	return least
}

// propose hands the draft of an approval to whoever keeps the call, who opens
// it as soon as the call is kept.
func (s *Service) propose(r *Record) error {
	if before := s.deniedBefore(r, s.opts.Now()); before != nil {
		return denied(before)
	}
	return &tools.Question{Approval: r.ID, Draft: r}
}

// Open asks the question of a draft, for a call that is kept. A question that
// was asked before a crash is not asked again.
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
	if r.Replaces != "" { // that is noticed later, too, as nobody waits for it
		_ = s.Withdraw(ctx, r.Replaces, "the call is not the one that was approved; "+r.ID+" asks about the present one")
	}
	return nil
}

// Withdraw takes a question back whose call is not to be made any more. One that
// was decided in the same moment stays decided, and is of no use to anybody.
func (s *Service) Withdraw(ctx context.Context, id, why string) error {
	return s.takeBack(ctx, id, why, "")
}

// Cancel takes a question back because the task of its call is cancelled. From then on
// [Service.CancelledFor] tells the reason, at every bridge: nobody takes the end of the
// question for an answer to the model.
func (s *Service) Cancel(ctx context.Context, id, reason string) error {
	return s.takeBack(ctx, id, "the task was cancelled: "+reason, cmp.Or(reason, "cancelled"))
}

// CancelledFor is the reason for which the task of an approval was cancelled while the
// approval could still be given or used, "" if it was not.
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

// Known reports whether there is such a question, and whether it needs no
// decision any more.
func (s *Service) Known(id string) (known, settled bool) {
	r, _, ok := s.opts.Approvals.Get(id)
	return ok, ok && r.State != Pending
}

// UsedAt is when a call was let through by an approval, in Unix ms; 0 if none was.
func (s *Service) UsedAt(id string) int64 {
	r, _, ok := s.opts.Approvals.Get(id)
	if !ok || r.State != Used {
		return 0
	}
	return max(r.EndedAt, 1)
}

// OnSettled has f called with the task of every kept call whose approval is
// decided or over. It must not block. It is said before the table is loaded.
func (s *Service) OnSettled(f func(task string)) {
	s.opts.Approvals.OnChange(func(_ string, old, now *Record) {
		if now != nil && now.Parked && now.State != Pending && (old == nil || old.State == Pending) {
			f(now.Task)
		}
	})
}

// OnEdited has f called whenever people have changed the arguments of a call. It must
// not block. It is said before the table is loaded.
func (s *Service) OnEdited(f func()) {
	s.opts.Approvals.OnChange(func(_ string, old, now *Record) {
		if old != nil && now != nil && now.Edits != old.Edits {
			f()
		}
	})
}

// Abandoned lists the approvals of kept calls that nobody keeps any more, as
// whoever knows the tasks says.
func (s *Service) Abandoned(waits func(task, approval string) bool) (ids []string) {
	for id, r := range s.opts.Approvals.All() {
		if r.Parked && !r.State.over() && !waits(r.Task, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
