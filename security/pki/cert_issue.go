package pki

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certIssue = commands.Spec{
	Name:    "cert.issue",
	Summary: "Issue the certificate of an approved request, once, or one directly, as an officer.",
	Effect:  commands.Write,
	Action:  "cert:issue",
	Errors: []protocol.Code{protocol.PermissionDenied, protocol.AlreadyExists, protocol.OutsideScope, protocol.NotFound,
		protocol.RevisionConflict, protocol.InvalidState},
	Example: `{"request_id":"6e0f0a5e-58a1-4b7b-9c7c-1f2d3c4b5a69"}`,
}

// IssueParams are the params of cert.issue.
type IssueParams struct {
	RequestID string `json:"request_id,omitempty" len:"1-64" doc:"the approved request; or else csr, authority and what it is for"`
	CSR       string `json:"csr,omitempty" len:"1-16384" doc:"certificate signing request (PKCS #10) in PEM"`
	CertificateSpec
}

// Validate checks the rules that the fields' tags cannot express.
func (p IssueParams) Validate() error {
	switch {
	case p.RequestID != "" && (p.CSR != "" || p.named()):
		return protocol.InvalidParam("request_id", "names the whole certificate: leave out the other parameters that describe it")
	case p.RequestID == "" && p.CSR == "":
		return protocol.InvalidParam("csr", "is needed, or request_id")
	case p.RequestID == "" && p.Authority == "":
		return protocol.InvalidParam("authority", "is needed")
	}
	return nil
}

// Target implements [commands.Targeter].
func (p IssueParams) Target() commands.Resource {
	if p.RequestID != "" {
		return commands.Resource{Type: "certificate", ID: p.RequestID}
	}
	return commands.Resource{Type: "certificate", ID: string(p.Skill), Space: p.Space}
}

// Issue issues a certificate: to the requester or an officer once the
// request was approved, or directly at the word of an officer.
func (s *Service) Issue(ctx context.Context, call *commands.Call, p IssueParams) (Result, error) {
	if p.RequestID != "" {
		return s.issueRequested(ctx, call, p.RequestID)
	}
	scope, err := p.scope(call)
	if err != nil {
		return Result{}, err
	}
	if err := mustDecide(call.Principal, p.Authority, scope); err != nil {
		return Result{}, err
	}
	csr, err := parseCSR(p.CSR)
	if err != nil {
		return Result{}, err
	}
	if err := s.reserved(scope); err != nil {
		return Result{}, err
	}
	if err := s.mayName(call.Principal, p.Authority, scope, protocol.Party{}); err != nil {
		return Result{}, err
	}
	if err := checkNames(csr, scope); err != nil {
		return Result{}, err
	}
	e, err := s.issue(ctx, order{
		authority: p.Authority, scope: scope, public: csr.PublicKey, validity: seconds(p.validity()), by: call.Principal.ID,
	})
	if err != nil {
		return Result{}, err
	}
	return s.issued(e), nil
}

func (s *Service) issueRequested(ctx context.Context, call *commands.Call, id string) (Result, error) {
	r, revision, err := s.request(call, id)
	if err != nil {
		return Result{}, err
	}
	if !r.By.Is(call.Principal) && !officer(call.Principal, r.Authority) {
		return Result{}, protocol.Errorf(protocol.PermissionDenied, "the request is somebody else's").With("request_id", r.ID)
	}
	if r.State != Approved {
		err := protocol.Errorf(protocol.InvalidState, "the request is %s, not approved", r.State).
			With("request_id", r.ID).With("status", string(r.State))
		if r.Serial != "" {
			err = err.With("serial", string(r.Serial))
		}
		return Result{}, err
	}
	if !r.AnyName {
		if err := s.unowned(r.Authority, &r.Scope, r.By); err != nil { // it may be by now
			return Result{}, err
		}
	}
	public, err := r.publicKey()
	if err != nil {
		return Result{}, err
	}
	e, err := s.issue(ctx, order{
		authority: r.Authority, scope: &r.Scope, public: public, validity: seconds(r.Validity), by: r.DecidedBy,
		claim: func(serial protocol.Serial) Entitlement {
			done := *r
			done.State, done.Serial = Issued, serial
			return Entitlement{Request: &done, Revision: revision}
		},
	})
	if err != nil {
		return Result{}, err
	}
	return s.issued(e), nil
}
