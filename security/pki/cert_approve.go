package pki

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certApprove = commands.Spec{
	Name:    "cert.approve",
	Summary: "Approve a pending request, as an officer of its authority.",
	Effect:  commands.Write,
	Action:  "cert:approve",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.NotFound, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"request_id":"6e0f0a5e-58a1-4b7b-9c7c-1f2d3c4b5a69"}`,
}

// DecisionParams name a request and say why it was decided like that.
type DecisionParams struct {
	RequestID string `json:"request_id" len:"1-64" doc:"of the request"`
	Reason    string `json:"reason,omitempty" len:"1-256" text:"lines" doc:"for those who read it later"`
}

// Target implements [commands.Targeter].
func (p DecisionParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", ID: p.RequestID}
}

// Approve lets a request have its certificate.
func (s *Service) Approve(ctx context.Context, call *commands.Call, p DecisionParams) (Result, error) {
	return s.decide(ctx, call, p, Approved)
}

// decide settles a pending request. Of two officers who decide at once the revision
// lets one succeed; an officer cannot decide on their own request.
func (s *Service) decide(ctx context.Context, call *commands.Call, p DecisionParams, state RequestState) (Result, error) {
	r, revision, err := s.request(call, p.RequestID)
	if err != nil {
		return Result{}, err
	}
	if err := mustDecide(call.Principal, r.Authority, &r.Scope); err != nil {
		return Result{}, err
	}
	switch {
	case r.By.Is(call.Principal):
		return Result{}, protocol.Errorf(protocol.PermissionDenied, "somebody else than who asked must decide").With("request_id", r.ID)
	case r.State != Pending:
		return Result{}, protocol.Errorf(protocol.InvalidState, "the request is %s already", r.State).
			With("request_id", r.ID).With("status", string(r.State))
	}
	if state == Approved {
		if err := s.mayName(call.Principal, r.Authority, &r.Scope, r.By); err != nil {
			return Result{}, err
		}
	}
	decided := *r
	decided.AnyName = everything(call.Principal)
	decided.State, decided.DecidedBy, decided.DecidedAt, decided.Reason = state, call.Principal.ID, s.opts.Now().UTC(), p.Reason
	if _, err := s.opts.Requests.Update(ctx, r.key(), &decided, revision); err != nil {
		return Result{}, err
	}
	s.opts.Publish("cert."+string(state), decided.event())
	return Result{RequestID: r.ID, Status: string(state)}, nil
}
