package approval

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var approvalDecide = commands.Spec{
	Name:    "approval.decide",
	Summary: "Approve or deny a call of a tool that waits for it.",
	Effect:  commands.Write,
	Action:  "approval:decide",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.PermissionDenied},
	Example: `{"approval_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","nonce":"Zm9vYmFyYmF6cXV4Zm9vYmFy","decision":"deny","reason":"Nobody is home."}`,
}

// DecideParams are the params of approval.decide.
type DecideParams struct {
	ID       string `json:"approval_id" len:"1-64" audit:"yes" doc:"id of the approval"`
	Nonce    string `json:"nonce" len:"1-64" doc:"nonce of the approval, as shown: it is bound to tool, arguments and roster"`
	Decision string `json:"decision" enum:"approve,deny" audit:"yes" doc:"action"`
	Reason   string `json:"reason,omitempty" len:"0-500" text:"lines" audit:"yes" doc:"reason; the model reads it when the call is denied"`
}

// Target implements [commands.Targeter].
func (p DecideParams) Target() commands.Resource {
	return commands.Resource{Type: "approval", ID: p.ID}
}

// DecideResult is the result of approval.decide.
type DecideResult struct {
	ID    string `json:"approval_id" doc:"id of the approval"`
	State State  `json:"state" enum:"pending,approved,denied" doc:"approved or denied; pending if further approvals are required"`
	Votes int    `json:"votes,omitempty" doc:"number of approvals so far"`
	Needs int    `json:"needs,omitempty" doc:"number of required approvals; absent if one is enough"`
}

// Decide records the decision of one decider. One denial suffices.
func (s *Service) Decide(ctx context.Context, call *commands.Call, p DecideParams) (DecideResult, error) {
	release, err := s.deciding.Lock(ctx, p.ID)
	if err != nil {
		return DecideResult{}, err
	}
	defer release()
	var step Step
	decided, _, err := records.Change(ctx, s.opts.Approvals, p.ID, func(r *Record, _ uint64) (*Record, error) {
		next, err := s.decided(call.Principal, r, p)
		if err == nil {
			step = s.happens(next, next.outcome())
		}
		return next, err
	})
	if err != nil {
		return DecideResult{}, err
	}
	s.tell(decided, step, call.Principal)
	return DecideResult{ID: p.ID, State: decided.State, Votes: len(decided.Agreed), Needs: decided.Needs}, nil
}

// outcome is the name of the event of a decision.
func (r *Record) outcome() string {
	if r.State == Pending {
		return "approval.voted"
	}
	return "approval." + string(r.State)
}

// decided is an approval after the decision of a principal.
func (s *Service) decided(who *protocol.Principal, r *Record, p DecideParams) (*Record, error) {
	if r == nil || !s.visible(who, r) {
		return nil, unknown(p.ID)
	}
	if err := s.mayDecide(who, r); err != nil {
		return nil, err
	}
	if err := s.undecided(r, p.Nonce); err != nil {
		return nil, err
	}
	if p.Decision == "approve" {
		if !r.readable() {
			return nil, protocol.Errorf(protocol.InvalidState, "the arguments of the call cannot be read any more: it cannot be approved").With("reason", "damaged")
		}
		if s.opts.People.same(r.Editor, who.Party()) && !s.opts.MayDecideEdited(who) {
			return nil, protocol.Errorf(protocol.PermissionDenied, "you have changed the call; somebody else has to agree to it").
				With("action", "approval:decide_edited").With("reason", "the editor is not the approver")
		}
		return s.agreedBy(who, r, p.Reason)
	}
	next := *r
	next.State, next.DecidedBy, next.DecidedAt, next.Reason = Denied, who.ID, ms(s.opts.Now()), p.Reason
	return &next, nil
}

// undecided returns the error of an approval that is decided or expired, or that has
// another nonce.
func (s *Service) undecided(r *Record, nonce string) error {
	switch {
	case r.State != Pending:
		return protocol.Errorf(protocol.InvalidState, "the approval is %s already", r.State).With("state", string(r.State))
	case ms(s.opts.Now()) >= r.Expires:
		return protocol.Errorf(protocol.InvalidState, "the time to decide is over").With("state", string(Expired))
	case !r.answers(nonce):
		return protocol.InvalidParam("nonce", "is not that of this approval")
	}
	return nil
}

func unknown(id string) error {
	return protocol.Errorf(protocol.NotFound, "no approval %q", id).With("approval_id", id)
}
