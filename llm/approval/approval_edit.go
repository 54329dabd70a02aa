package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

var approvalEdit = commands.Spec{
	Name:    "approval.edit",
	Summary: "Change the arguments of a call that waits for approval. It is asked about anew, under another nonce; who has agreed to it before has not agreed to this.",
	Effect:  commands.Write,
	Action:  "approval:edit",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.PermissionDenied},
	Example: `{"approval_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","nonce":"Zm9vYmFyYmF6cXV4Zm9vYmFy","arguments":{"celsius":180},"reason":"220 is too hot."}`,
}

// EditParams are the params of approval.edit.
type EditParams struct {
	ID     string          `json:"approval_id" len:"1-64" audit:"yes" doc:"id of the approval"`
	Nonce  string          `json:"nonce" len:"1-64" doc:"nonce of the approval, as shown"`
	Args   json.RawMessage `json:"arguments" doc:"all new arguments of the call, an object"`
	Reason string          `json:"reason,omitempty" len:"0-500" text:"lines" audit:"yes" doc:"reason; the model reads it"`
}

// Target implements [commands.Targeter].
func (p EditParams) Target() commands.Resource {
	return commands.Resource{Type: "approval", ID: p.ID}
}

// maxEdits is the greatest number of changes of a waiting call.
const maxEdits = 20

// A Reviser returns a parked call with other arguments, for its requester and with the
// current declaration of its tool. It does not run the call.
type Reviser func(ctx context.Context, r *Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error)

// OnEdit sets the reviser of calls with changed arguments. Call it before any command.
func (s *Service) OnEdit(revise Reviser) { s.revise = revise }

// Edit changes the arguments of a waiting call.
func (s *Service) Edit(ctx context.Context, call *commands.Call, p EditParams) (Approval, error) {
	r, revision, ok := s.opts.Approvals.Get(p.ID)
	if !ok || !s.visible(call.Principal, r) {
		return Approval{}, unknown(p.ID)
	}
	if err := s.mayEdit(call.Principal, r, p); err != nil {
		return Approval{}, err
	}
	t, x, err := s.revise(ctx, r, p.Args)
	if err != nil {
		return Approval{}, err
	}
	next, err := s.edited(ctx, call.Principal, r, p.Reason, t, x)
	if err != nil {
		return Approval{}, err
	}
	release, err := s.deciding.Lock(ctx, p.ID)
	if err != nil {
		return Approval{}, err
	}
	defer release()
	step := s.happens(next, "approval.edited")
	if _, err := s.opts.Approvals.Update(ctx, p.ID, next, revision); err != nil {
		if records.Raced(err) {
			err = protocol.Errorf(protocol.InvalidState, "the approval was decided or changed meanwhile")
		}
		return Approval{}, err
	}
	s.tell(next, step, call.Principal)
	return s.view(next), nil
}

// mayEdit returns the error of a principal that may not change the call of an approval.
func (s *Service) mayEdit(who *protocol.Principal, r *Record, p EditParams) error {
	if err := s.mayDecide(who, r); err != nil {
		return err
	}
	if err := s.undecided(r, p.Nonce); err != nil {
		return err
	}
	switch {
	case r.Elsewhere:
		return protocol.Errorf(protocol.InvalidState, "the call waits at a site, where its arguments can be changed; deny it with a reason").With("state", string(r.State))
	case !r.Parked || s.revise == nil:
		return protocol.Errorf(protocol.InvalidState, "the call is not kept, so its arguments stay as they are; deny it with a reason").With("state", string(r.State))
	case r.Edits >= maxEdits:
		return protocol.Errorf(protocol.LimitReached, "the call was changed %d times already, which is the limit", r.Edits).With("limit", maxEdits)
	case len(p.Args) > s.opts.MaxArgs:
		return protocol.InvalidParam("arguments", "are too long to be judged").With("limit", s.opts.MaxArgs)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(p.Args, &object) != nil || object == nil {
		return protocol.InvalidParam("arguments", "is no object")
	}
	return nil
}

// edited is the approval of the call with other arguments.
func (s *Service) edited(ctx context.Context, who *protocol.Principal, r *Record, reason string, t *tools.Tool, x *tools.Execution) (*Record, error) {
	ruling, why := s.judge(ctx, t, x)
	if ruling == Deny {
		return nil, protocol.Errorf(protocol.PermissionDenied, "models may not call %s so: %s", t.Name, why).With("reason", "denied")
	}
	draft, err := s.draft(ctx, t, x, why)
	if err != nil {
		return nil, err
	}
	if draft.Hash == r.Hash || bytes.Equal(draft.Args, r.Args) {
		return nil, protocol.InvalidParam("arguments", "are those that it has")
	}
	if draft.Effect != r.Effect {
		if err := s.sameEffect(draft); err != nil {
			return nil, err
		}
	}
	next := *r
	next.Policy, next.Asking, next.Risk, next.Effect = draft.Policy, draft.Asking, draft.Risk, draft.Effect
	next.Args, next.Roster, next.Hash, next.Declared, next.Salt, next.Agreed = draft.Args, draft.Roster, draft.Hash, draft.Declared, draft.Salt, nil
	next.Expires, next.UseFor = min(r.Expires, draft.Expires), draft.UseFor
	next.ruledAs(draft)
	if ruling == Ask {
		next.Why = why
	}
	next.Changes = differences(r, &next)
	next.Edits++
	next.EditedBy, next.EditedFor, next.Editor = who.ID, reason, who.Party()
	return &next, nil
}

// ruledAs applies the deciders and times of the changed call's draft. If these are the
// same as before, reminders and escalation continue.
func (r *Record) ruledAs(draft *Record) {
	if reflect.DeepEqual(r.Deciders, draft.Deciders) && r.Needs == draft.Needs && reflect.DeepEqual(r.escalatesTo(), draft.escalatesTo()) {
		return
	}
	r.Deciders, r.Needs, r.RemindEvery, r.Escalation = draft.Deciders, draft.Needs, draft.RemindEvery, draft.Escalation
	r.RemindedAt, r.EscalatedAt = 0, 0
	if r.RemindEvery > 0 {
		r.RemindedAt = draft.AskedAt
	}
}

// An Edited is the change of a model's call by a decider.
type Edited struct {
	Args   json.RawMessage
	By     string
	Reason string
}

// Told is the description of the change for the caller.
func (e *Edited) Told() string {
	told := fmt.Sprintf("%s has changed the arguments to %s", e.By, e.Args)
	if e.Reason != "" {
		told += ": " + e.Reason
	}
	return told
}

// Edited returns the change of an approval's call, nil for none.
func (s *Service) Edited(id string) *Edited {
	r, _, ok := s.opts.Approvals.Get(id)
	if !ok || r.Edits == 0 {
		return nil
	}
	return &Edited{r.Args, r.EditedBy, r.EditedFor}
}
