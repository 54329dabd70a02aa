package approval

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Gate lets a call pass, or waits until somebody agrees to it. It is a
// [tools.Gate]: the error it returns is what the model reads instead of a
// result.
func (s *Service) Gate(ctx context.Context, t *tools.Tool, x *tools.Execution) error {
	about, err := s.inspect(ctx, t, x)
	if err != nil {
		return err
	}
	ruling, why := s.judge(ctx, t, x, about)
	s.metrics.ruled(ruling)
	switch ruling {
	case Run:
		return nil
	case Deny:
		s.opts.Record(Event{Name: "approval.refused", By: x.Principal, Approval: Approval{
			Space: spaceOf(x), Tool: t.Name, Source: t.Source, Roster: about.Roster, Why: why, State: Denied,
			Requester: x.Principal.ID, Kind: x.Principal.Kind, TraceID: x.TraceID,
		}})
		return protocol.Errorf(protocol.PermissionDenied, "models may not call %s: %s", t.Name, why).With("reason", "denied")
	case Ask:
	}
	r, err := s.draft(t, x, about, why)
	if err != nil {
		return err
	}
	return s.await(ctx, r, func() error { return s.unchanged(ctx, r, t, x) })
}

// inspect asks what a call reaches. A call that cannot be judged is not made.
func (s *Service) inspect(ctx context.Context, t *tools.Tool, x *tools.Execution) (About, error) {
	if s.opts.Inspect == nil {
		return About{}, nil
	}
	return s.opts.Inspect(ctx, t, x)
}

// draft is the approval that a call needs.
func (s *Service) draft(t *tools.Tool, x *tools.Execution, about About, why string) (*Record, error) {
	if len(x.ArgumentsJSON) > s.opts.MaxArgs {
		return nil, protocol.Errorf(protocol.PermissionDenied, "somebody would have to agree to the call, and its arguments are too long to be judged").
			With("reason", "too_long").With("limit", s.opts.MaxArgs)
	}
	arguments := x.ArgumentsJSON
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return &Record{
		Home: x.Principal.Home(),
		Salt: newSalt(),
		Approval: Approval{
			ID: newID(), State: Pending, Space: spaceOf(x), Tool: t.Name, Title: t.Title, Source: t.Source,
			Args: arguments, Roster: about.Roster, Why: why,
			Hash:      hashOf(t.Hash(), t.Name, arguments, about.Roster),
			Requester: x.Principal.ID, Kind: x.Principal.Kind, Skill: x.Skill,
			Session: x.Session, Task: x.Task, TraceID: x.TraceID,
		},
	}, nil
}

// unchanged looks once more at what was approved: a group may have got other
// members meanwhile, or their capabilities another risk.
func (s *Service) unchanged(ctx context.Context, r *Record, t *tools.Tool, x *tools.Execution) error {
	about, err := s.inspect(ctx, t, x)
	if err != nil {
		return err
	}
	if ruling, why := s.judge(ctx, t, x, about); ruling == Deny {
		return protocol.Errorf(protocol.PermissionDenied, "models may not call %s any more: %s", t.Name, why).With("reason", "denied")
	}
	if hashOf(t.Hash(), t.Name, r.Args, about.Roster) != r.Hash {
		return protocol.Errorf(protocol.PermissionDenied, "the call reaches others than those that were shown to who approved it").With("reason", "changed")
	}
	return nil
}

func spaceOf(x *tools.Execution) protocol.SpaceID {
	if x.Space != "" {
		return x.Space
	}
	return x.Principal.Home()
}

// visible reports whether somebody may see an approval: who may decide about
// it, who looks on in its space, and who asked.
func (s *Service) visible(who *protocol.Principal, r *Record) bool {
	switch {
	case r.requestedBy(who):
		return true
	case r.Space != who.Home() && !who.Unbounded():
		return false
	}
	return slices.Contains(who.Roles, protocol.RoleObserver) || s.opts.MayDecide(who, r.Space)
}
