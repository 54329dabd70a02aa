package approval

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Matter is a subject of a decision other than a call of a model, such as the
// continuation of a rollout. Its approval is decided like that of a call.
type Matter struct {
	ID, Task, Tool, Title, Source, Why string
	Args                               json.RawMessage
	Space                              protocol.SpaceID
	Asker                              protocol.Party
	TraceID                            string
	Life                               time.Duration
}

// Raise opens the approval of a matter, once for each id. The rules for its Tool decide
// the deciders; rules with risks do not match.
func (s *Service) Raise(ctx context.Context, m Matter) error {
	if known, _ := s.Known(m.ID); known {
		return nil
	}
	now := s.opts.Now()
	r := &Record{
		Home: m.Asker.Space, Salt: newSalt(), Parked: true,
		Approval: Approval{
			ID: m.ID, State: Pending, Space: m.Space, Tool: m.Tool, Title: m.Title, Source: m.Source, Args: m.Args, Why: m.Why,
			Hash:    hashed([]byte(m.Tool), []byte(m.Task), m.Args),
			AskedAt: ms(now), Expires: ms(now.Add(min(m.Life, MaxLife))),
			Requester: m.Asker.ID, Kind: m.Asker.Kind, Task: m.Task, TraceID: m.TraceID,
		},
	}
	s.rule(subject{names: []string{m.Tool}, space: m.Space}).applyTo(r)
	release, err := s.Reserve(r)
	if err != nil {
		return err
	}
	defer release()
	return s.Open(ctx, r)
}

// Verdict returns the outcome of a matter, with the reason unless it was approved.
func (s *Service) Verdict(id string) (decided, approved bool, why string) {
	r, _, ok := s.opts.Approvals.Get(id)
	switch {
	case !ok || r.State == Pending:
		return false, false, ""
	case r.EditedBy != "":
		return true, false, "the question was changed by " + r.EditedBy + ", which a matter like this cannot be"
	case r.State == Used:
		return true, true, ""
	case s.stale(r):
		return true, false, "it was approved too long ago"
	case r.State == Approved && s.lapsed(r) == nil:
		return true, true, ""
	case r.State == Approved:
		return true, false, "who approved may not any more"
	case r.State == Denied:
		return true, false, protocol.AsError(denied(r)).Message
	}
	return true, false, "nobody approved: the question is " + string(r.State)
}

// Settle records the use of a matter's approval.
func (s *Service) Settle(ctx context.Context, id string) error {
	release, err := s.deciding.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	r, revision, ok := s.opts.Approvals.Get(id)
	if !ok || r.State != Approved {
		return nil
	}
	_, err = s.end(ctx, r, revision, Used, r.Reason)
	return err
}
