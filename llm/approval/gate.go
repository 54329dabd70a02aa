package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Gate returns nil for a call that may run, if need be after waiting for its approval.
// It is a [tools.Gate]: the model reads its error instead of a result.
func (s *Service) Gate(ctx context.Context, t *tools.Tool, x *tools.Execution) error {
	ruling, why := s.judge(ctx, t, x)
	s.metrics.ruled(ruling)
	if x.Approval != "" {
		return s.take(ctx, verdict{ruling, why}, t, x)
	}
	switch ruling {
	case Run:
		return nil
	case Deny:
		return s.refuse(t, x, why)
	case Ask:
	}
	r, err := s.draft(ctx, t, x, why)
	if err != nil {
		return err
	}
	if err := s.sameEffect(r); err != nil {
		return err
	}
	if x.Parks {
		return s.propose(r)
	}
	return s.await(ctx, r, func() error { return s.stillAllowed(ctx, r, t, x) })
}

// refuse records the refusal of a call without an approval, and returns its error.
func (s *Service) refuse(t *tools.Tool, x *tools.Execution, why string) error {
	s.opts.Record(Event{Name: "approval.refused", By: x.Principal, Approval: Approval{
		Space: spaceOf(x), Tool: t.Name, Source: t.Source, Roster: x.Roster, Why: why, State: Denied,
		Requester: x.Principal.ID, Kind: x.Principal.Kind, TraceID: x.TraceID,
	}})
	return protocol.Errorf(protocol.PermissionDenied, "models may not call %s: %s", t.Name, why).With("reason", "denied")
}

// draft returns the unopened approval of a call.
func (s *Service) draft(ctx context.Context, t *tools.Tool, x *tools.Execution, why string) (*Record, error) {
	if len(x.ArgumentsJSON) > s.opts.MaxArgs {
		return nil, protocol.Errorf(protocol.PermissionDenied, "somebody would have to agree to the call, and its arguments are too long to be judged").
			With("reason", "too_long").With("limit", s.opts.MaxArgs)
	}
	arguments := argumentsOf(x)
	now, rule := s.opts.Now(), s.rule(subjectOf(t, x))
	r := &Record{
		Home:     x.Principal.Home(),
		Salt:     newSalt(),
		Declared: declarationOf(t, x),
		Parked:   x.Parks,
		Effect:   x.Effect,
		Asking:   s.opts.Versions.Asking(ctx, x),
		UseFor:   s.useFor(rule, t, x).Milliseconds(),
		Approval: Approval{
			ID: newID(), State: Pending, Space: spaceOf(x), Tool: t.Name, Title: t.Title, Source: t.Source,
			Args: arguments, Roster: x.Roster, Why: why,
			Policy:  s.opts.Versions.Version(),
			Hash:    hashOf(t, x),
			AskedAt: ms(now), Expires: ms(now.Add(s.life(rule, t, x))),
			Requester: x.Principal.ID, Kind: x.Principal.Kind, Skill: x.Skill,
			Session: x.Session, Task: x.Task, TraceID: x.TraceID, Risk: cmp.Or(t.RiskWords, x.Risk, t.Risk),
		},
	}
	rule.applyTo(r)
	return r, nil
}

// stillAllowed judges the approved call once more, since policy may have changed
// meanwhile, or the credential of the call ended. It also checks that the call equals
// the one shown.
func (s *Service) stillAllowed(ctx context.Context, r *Record, t *tools.Tool, x *tools.Execution) error {
	if s.opts.Check(x.Principal) != nil {
		return protocol.Errorf(protocol.PermissionDenied, "the credential with which the call was asked for is no longer valid").With("reason", "credential")
	}
	t, x, err := x.Again(ctx, t)
	if err != nil {
		return protocol.Errorf(protocol.PermissionDenied, "the call is not the one that was approved: %s", protocol.AsError(err).Message).With("reason", "changed")
	}
	if ruling, why := s.judge(ctx, t, x); ruling == Deny {
		return protocol.Errorf(protocol.PermissionDenied, "models may not call %s any more: %s", t.Name, why).With("reason", "denied")
	}
	if hashOf(t, x) != r.Hash {
		return protocol.Errorf(protocol.PermissionDenied, "the call is not the one that was approved").With("reason", "changed")
	}
	return nil
}

func argumentsOf(x *tools.Execution) json.RawMessage {
	if len(x.ArgumentsJSON) == 0 {
		return json.RawMessage("{}")
	}
	return x.ArgumentsJSON
}

func spaceOf(x *tools.Execution) protocol.SpaceID {
	if x.Space != "" {
		return x.Space
	}
	return x.Principal.Home()
}

// visible reports whether a principal may see an approval: the requester, observers of
// its space, and principals that may decide about all approvals or about this one. For
// operators without the right to decide about all, policy is evaluated for each
// approval.
func (s *Service) visible(who *protocol.Principal, r *Record) bool {
	switch {
	case r.requestedBy(who):
		return true
	case r.Space != who.Home() && !who.Unbounded():
		return false
	}
	return slices.Contains(who.Roles, protocol.RoleObserver) || s.opts.MayDecide(who, r.Space, "") ||
		who.Kind == protocol.KindOperator && s.opts.MayDecide(who, r.Space, r.ID)
}
