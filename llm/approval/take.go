package approval

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A verdict is a ruling with its reason.
type verdict struct {
	ruling Ruling
	why    string
}

// take uses the approval of a parked call, with the current declaration of its tool and
// the current rights of its principal. An approval can be used once. If the call
// differs from the approved one, take returns a new question.
func (s *Service) take(ctx context.Context, v verdict, t *tools.Tool, x *tools.Execution) error {
	release, err := s.deciding.Lock(ctx, x.Approval) // the event of the decision precedes that of the use
	if err != nil {
		return err
	}
	defer release()
	r, revision, ok := s.opts.Approvals.Get(x.Approval)
	if err := s.given(r, ok, x); err != nil {
		return err
	}
	changed := hashOf(t, x) != r.callHash()
	switch {
	case r.State == Used && changed:
		return protocol.Errorf(protocol.OutcomeUnknown, "the call was begun before the bridge stopped, and cannot be looked at again: it is declared differently now").
			With("approval_id", r.ID).With("reason", "changed")
	case r.State == Used && v.ruling == Deny:
		return protocol.Errorf(protocol.OutcomeUnknown, "the call was begun before the bridge stopped, and models may not call %s any more: %s", t.Name, v.why).
			With("approval_id", r.ID).With("reason", "denied")
	case r.State == Used: // before a crash; the idempotency key prevents a second run
		return nil
	case v.ruling == Deny:
		_, _ = s.end(ctx, r, revision, Withdrawn, "models may not call it any more: "+v.why)
		return protocol.Errorf(protocol.PermissionDenied, "models may not call %s any more: %s", t.Name, v.why).With("approval_id", r.ID).With("reason", "denied")
	case s.opts.Check(x.Principal) != nil:
		_, _ = s.end(ctx, r, revision, Withdrawn, "the credential with which the call was asked for is no longer valid")
		return protocol.Errorf(protocol.PermissionDenied, "the credential with which the call was asked for is no longer valid").With("approval_id", r.ID).With("reason", "credential")
	case changed || v.ruling == Ask && (v.why != r.Why || s.otherPolicies(ctx, r, x)):
		return s.sendBack(ctx, r, v, t, x)
	}
	if s.stale(r) {
		return s.renew(ctx, r, revision)
	}
	if again := s.lapsed(r); again != nil {
		return s.reopen(ctx, again, revision)
	}
	used := *r
	used.Hash, used.CallHash = "", r.Hash
	if now := s.opts.Versions.Version(); now != r.Policy {
		used.UsedUnder = now
	}
	if _, err := s.end(ctx, &used, revision, Used, r.Reason); err != nil {
		return protocol.Errorf(protocol.StoreUnavailable, "the call was approved, and could not be noted as made").With("approval_id", r.ID).With("reason", "fault")
	}
	return nil
}

// otherPolicies reports whether the policies that require the approval of a call have
// changed. Changes of other policies do not count, nor does a different answer of
// unchanged ones, as with conditions on the time.
func (s *Service) otherPolicies(ctx context.Context, r *Record, x *tools.Execution) bool {
	return r.Policy != "" && r.Policy != s.opts.Versions.Version() && r.Asking != s.opts.Versions.Asking(ctx, x)
}

// given returns the error of a call whose approval is not given.
func (s *Service) given(r *Record, known bool, x *tools.Execution) error {
	switch {
	case !known: // it may have been used, and the call made, before it was lost
		return protocol.Errorf(protocol.OutcomeUnknown, "the approval of the call is lost, and whether the call was made is not known").With("approval_id", x.Approval).With("reason", "lost")
	case !r.requestedBy(x.Principal):
		return protocol.Errorf(protocol.PermissionDenied, "the approval is one of another principal's call").With("approval_id", x.Approval).With("reason", "lost")
	case r.State == Pending:
		return &tools.Question{Approval: r.ID, Draft: r}
	case r.State == Denied:
		return denied(r)
	case r.State == Expired:
		return expired(r)
	case r.State == Withdrawn:
		return withdrawn(r)
	}
	return nil
}

// sendBack returns the question of a new approval, with the differences, for a call
// that is not the approved one any more. The old approval is withdrawn when the new one
// is opened.
func (s *Service) sendBack(ctx context.Context, r *Record, v verdict, t *tools.Tool, x *tools.Execution) error {
	why := v.why
	if v.ruling == Run {
		why = r.Why
	}
	next, err := s.draft(ctx, t, x, why)
	if err != nil {
		return err
	}
	next.Replaces, next.Changes, next.Task = r.ID, differences(r, next), r.Task
	next.Edits, next.EditedBy, next.EditedFor, next.Editor = r.Edits, r.EditedBy, r.EditedFor, r.Editor
	return &tools.Question{Approval: next.ID, Draft: next}
}

// reopen returns an approval to state Pending, after its votes have lapsed.
func (s *Service) reopen(ctx context.Context, r *Record, revision uint64) error {
	step := s.happens(r, "approval.reopened")
	if _, err := s.opts.Approvals.Update(ctx, r.ID, r, revision); err != nil {
		return protocol.Errorf(protocol.StoreUnavailable, "the approval of the call does not count any more, and nobody could be asked again").With("approval_id", r.ID).With("reason", "fault")
	}
	s.tell(r, step, nil)
	return &tools.Question{Approval: r.ID, Draft: r}
}

// differences describes the differences of a call from the approved one, for deciders.
func differences(was, is *Record) []string {
	var list []string
	if was.Declared != is.Declared {
		list = append(list, "the tool is declared differently")
	}
	if string(was.Args) != string(is.Args) && slices.Equal(was.Roster, is.Roster) {
		list = append(list, fmt.Sprintf("the arguments were %s", was.Args))
	}
	for _, skill := range is.Roster {
		if !slices.Contains(was.Roster, skill) {
			list = append(list, "it reaches "+skill+", too")
		}
	}
	for _, skill := range was.Roster {
		if !slices.Contains(is.Roster, skill) {
			list = append(list, "it does not reach "+skill+" any more")
		}
	}
	if was.Why != is.Why {
		list = append(list, fmt.Sprintf("the reason for asking was: %s", was.Why))
	}
	if was.Policy != is.Policy && (was.Why != is.Why || was.Asking != is.Asking) {
		list = append(list, fmt.Sprintf("the policies were those of version %s, and are those of version %s now", cmp.Or(was.Policy, "unknown"), is.Policy))
	}
	if len(list) == 0 {
		list = append(list, "those that it reaches declare themselves differently")
	}
	return list
}

// expired is the error, for the model, of a call without a decision, or with one that
// is stale.
func expired(r *Record) error {
	if r.DecidedBy != "" {
		return staleness(r)
	}
	return protocol.Errorf(protocol.PermissionDenied, "nobody approved the call within %s, so it was not made", patience(r)).
		With("approval_id", r.ID).With("reason", "expired")
}

// withdrawn is the error, for the model, of a call whose approval was withdrawn.
func withdrawn(r *Record) error {
	return protocol.Errorf(protocol.PermissionDenied, "the question whether the call may run was withdrawn: %s", r.Reason).
		With("approval_id", r.ID).With("reason", string(Withdrawn))
}
