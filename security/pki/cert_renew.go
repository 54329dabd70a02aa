package pki

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certRenew = commands.Spec{
	Name:    "cert.renew",
	Summary: "Issue a certificate anew for the same holder, with another key and serial; the old one stays good until it ends.",
	Effect:  commands.Write,
	Action:  "cert:renew",
	Errors: []protocol.Code{protocol.PermissionDenied, protocol.CertificateRequired, protocol.CertificateUnknown, protocol.CertificateExpired,
		protocol.CertificateRevoked, protocol.OutsideScope, protocol.ProofFailed, protocol.InvalidState, protocol.LimitReached},
	Example: `{"serial":"8a1b2c3d4e5f6a7b","csr":"-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n"}`,
}

// RenewParams are the params of cert.renew.
type RenewParams struct {
	Serial   protocol.Serial `json:"serial,omitempty" doc:"of the certificate to renew, that of the connection by default"`
	CSR      string          `json:"csr" len:"1-16384" doc:"certificate signing request (PKCS #10) in PEM, with a new key"`
	Validity int             `json:"validity_seconds,omitempty" range:"1-71280000" doc:"time that the new one lasts, as long as the old one by default; more only for officers"`
}

// Target implements [commands.Targeter].
func (p RenewParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", ID: string(p.Serial)}
}

// Renew issues a certificate anew, to its holder, who proves the old key, or at the
// word of an officer. A certificate has one renewal at a time: a second request
// with the same new key gets the same certificate, and with another key is refused,
// so that the thief of a key cannot make certificates beside the holder's,
// unnoticed.
func (s *Service) Renew(ctx context.Context, call *commands.Call, p RenewParams) (Result, error) {
	if p.Serial == "" {
		p.Serial = call.Principal.CertSerial
	}
	if p.Serial == "" {
		return Result{}, protocol.Errorf(protocol.CertificateRequired, "which certificate?").With("param_name", "serial")
	}
	e, err := s.visible(call, p.Serial)
	if err != nil {
		return Result{}, err
	}
	if err := e.valid(s.opts.Now()); err != nil {
		return Result{}, err // reinstating is a new certificate
	}
	if err := s.mayRenew(call, e, p); err != nil {
		return Result{}, err
	}
	csr, err := parseCSR(p.CSR)
	if err != nil {
		return Result{}, err
	}
	if err := checkNames(csr, e.scope); err != nil {
		return Result{}, err
	}
	if equalKeys(e.leaf().PublicKey, csr.PublicKey) {
		return Result{}, protocol.InvalidParam("csr", "has the old key: renewing takes a new one")
	}
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if err := s.Valid(e.Serial); err != nil {
		return Result{}, err // it was revoked a moment ago
	}
	if before := s.renewal(e); before != nil {
		if equalKeys(before.leaf().PublicKey, csr.PublicKey) {
			return s.issued(before), nil
		}
		return Result{}, protocol.Errorf(protocol.LimitReached, "it was renewed already, with another key; renew that certificate, or revoke it if its key is not yours").
			With("serial", string(e.Serial)).With("renewal", string(before.Serial))
	}
	validity := seconds(p.Validity)
	if p.Validity == 0 {
		validity = e.lifetime()
	}
	renewed, err := s.issue(ctx, order{
		authority: e.Authority, scope: e.scope, public: csr.PublicKey, validity: validity, by: call.Principal.ID, renews: e.Serial,
	})
	if err != nil {
		return Result{}, err
	}
	return s.issued(renewed), nil
}

// mayRenew checks that the caller decides for the authority or holds the
// certificate, which may not last longer than the old one did.
func (s *Service) mayRenew(call *commands.Call, e *entry, p RenewParams) error {
	if mustDecide(call.Principal, e.Authority, e.scope) == nil {
		return nil
	}
	if err := s.possession(call, e, ""); err != nil {
		return err
	}
	if seconds(p.Validity) > e.lifetime() {
		return protocol.Errorf(protocol.PermissionDenied, "only officers may make a certificate last longer than it did").
			With("param_name", "validity_seconds").With("limit", int(e.lifetime().Seconds()))
	}
	return nil
}

// renewal is the valid certificate that one was renewed into, nil without one.
func (s *Service) renewal(e *entry) *entry {
	now := s.opts.Now()
	for _, r := range s.index.renewedFrom(e.Serial) {
		if r.Renews == e.Serial && r.valid(now) == nil {
			return r
		}
	}
	return nil
}
