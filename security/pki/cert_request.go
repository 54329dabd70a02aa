package pki

import (
	"context"
	"crypto/x509"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certRequest = commands.Spec{
	Name:    "cert.request",
	Summary: "Ask an authority for a certificate, or claim one with a token.",
	Effect:  commands.Write,
	Action:  "cert:request",
	Errors: []protocol.Code{protocol.CredentialInvalid, protocol.PermissionDenied, protocol.OutsideScope, protocol.NotFound,
		protocol.AlreadyExists, protocol.LimitReached, protocol.InvalidState},
	Example: `{"authority":"appstore","csr":"-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n",` +
		`"skill_id":"lighting","role":"agent_route","scene_types":["SMART_HOME"],"purpose":"Lights of the Miller home"}`,
}

// RequestParams are the params of cert.request.
type RequestParams struct {
	CSR   string `json:"csr" len:"1-16384" doc:"certificate signing request (PKCS #10) in PEM; the key stays with its owner"`
	Token string `json:"token,omitempty" len:"1-128" doc:"claim token: the certificate is issued at once, for what the token is for"`
	CertificateSpec
}

// Validate checks the rules that the fields' tags cannot express.
func (p RequestParams) Validate() error {
	switch {
	case p.Token != "" && p.named():
		return protocol.InvalidParam("token", "names the whole certificate: leave out the other parameters that describe it")
	case p.Token == "" && p.Authority == "":
		return protocol.InvalidParam("authority", "is needed without a token")
	}
	return nil
}

// Target implements [commands.Targeter].
func (p RequestParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", ID: string(p.Skill), Space: p.Space}
}

// A Result is the state of a request or a certificate.
type Result struct {
	RequestID string          `json:"request_id,omitempty" doc:"of what was asked for"`
	Serial    protocol.Serial `json:"serial,omitempty" doc:"of the certificate, once there is one"`
	Status    string          `json:"status" doc:"of a request: pending, approved, rejected; issued; of a certificate: revoked"`
	Chain     []string        `json:"chain,omitempty" doc:"in PEM: the certificate, its authority, the root"`
	ExpiresAt int64           `json:"expires_at,omitempty" doc:"of the certificate, Unix milliseconds"`
}

// Request takes an application for a certificate. An officer of the authority
// decides; with a claim token one has decided already.
func (s *Service) Request(ctx context.Context, call *commands.Call, p RequestParams) (Result, error) {
	csr, err := parseCSR(p.CSR)
	if err != nil {
		return Result{}, err
	}
	if p.Token != "" {
		return s.redeem(ctx, p.Token, csr)
	}
	scope, err := p.scope(call)
	if err != nil {
		return Result{}, err
	}
	if err := s.reserved(scope); err != nil {
		return Result{}, err
	}
	if err := checkNames(csr, scope); err != nil {
		return Result{}, err
	}
	if err := s.roomForRequest(call.Principal.Party()); err != nil {
		return Result{}, err
	}
	r := &Request{
		ID: protocol.NewID(), Authority: p.Authority, State: Pending, Scope: *scope, Validity: p.validity(),
		CSR: csr.Raw, By: call.Principal.Party(), At: s.opts.Now().UTC(),
	}
	if _, err := s.opts.Requests.Create(ctx, r.key(), r); err != nil {
		return Result{}, err
	}
	s.opts.Publish("cert.requested", r.event())
	return Result{RequestID: r.ID, Status: string(Pending)}, nil
}

// roomForRequest bounds the requests that wait for officers.
func (s *Service) roomForRequest(by protocol.Party) error {
	if s.opts.Requests.Len() >= maxRequests {
		return protocol.Errorf(protocol.LimitReached, "too many requests are kept").With("limit", maxRequests)
	}
	n := 0
	for _, r := range s.opts.Requests.All() {
		if r.By == by && r.State == Pending {
			n++
		}
	}
	if n >= maxOfOneHand {
		return protocol.Errorf(protocol.LimitReached, "%d of your requests are pending", n).With("limit", maxOfOneHand)
	}
	return nil
}

func (r *Request) event() requestEvent {
	return requestEvent{r.ID, r.Authority, r.Scope.ID, r.Scope.Skill, r.Scope.Space, r.By.ID}
}

// key of a stored signing request.
func (r *Request) publicKey() (any, error) {
	csr, err := x509.ParseCertificateRequest(r.CSR)
	if err != nil {
		return nil, err
	}
	return csr.PublicKey, nil
}

// issued is the result for a new certificate.
func (s *Service) issued(e *entry) Result {
	return Result{RequestID: e.Request, Serial: e.Serial, Status: string(Issued), Chain: s.chain(e), ExpiresAt: e.notAfter.UnixMilli()}
}
