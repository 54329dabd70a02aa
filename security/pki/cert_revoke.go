package pki

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var certRevoke = commands.Spec{
	Name:    "cert.revoke",
	Summary: "Take a certificate back. Its sessions end at once, and nothing brings it back.",
	Effect:  commands.Write,
	Action:  "cert:revoke",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.CertificateUnknown, protocol.ProofFailed, protocol.RevisionConflict},
	Example: `{"serial":"8a1b2c3d4e5f6a7b","reason":"key compromise"}`,
}

// RevokeParams are the params of cert.revoke.
type RevokeParams struct {
	Serial   protocol.Serial `json:"serial" doc:"of the certificate"`
	Reason   string          `json:"reason" len:"1-256" text:"lines" doc:"reason; those of RFC 5280, such as key compromise, superseded, cessation of operation, also go into the revocation list"`
	Renewals *bool           `json:"renewals,omitempty" doc:"also those that were renewed from it; by default if the reason is key compromise"`
}

// Target implements [commands.Targeter].
func (p RevokeParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", ID: string(p.Serial)}
}

// RevokeResult is the result of cert.revoke.
type RevokeResult struct {
	Serial    protocol.Serial   `json:"serial" doc:"serial number of the certificate, 16 hexadecimal digits"`
	Status    string            `json:"status" doc:"revoked"`
	Reason    string            `json:"reason" doc:"that stands in the record: of the first revocation"`
	RevokedAt int64             `json:"revoked_at" doc:"Unix milliseconds"`
	Renewals  []protocol.Serial `json:"renewals,omitempty" doc:"renewed from it and revoked along with it"`
}

// Revoke revokes a certificate, at the request of an officer or of its holder, who
// proves the key. A revocation is never changed.
func (s *Service) Revoke(ctx context.Context, call *commands.Call, p RevokeParams) (RevokeResult, error) {
	e, err := s.visible(call, p.Serial)
	if err != nil {
		return RevokeResult{}, err
	}
	if denied := mustDecide(call.Principal, e.Authority, e.scope); denied != nil {
		if !s.shows(call, e) {
			return RevokeResult{}, denied
		}
		if err := s.possession(call, e, ""); err != nil {
			return RevokeResult{}, err
		}
	}
	code := reasonCode(p.Reason)
	renewals := code == keyCompromise
	if p.Renewals != nil {
		renewals = *p.Renewals
	}
	s.renewing.Lock() // so that no renewal is on its way that would not be seen
	defer s.renewing.Unlock()
	why := Revocation{At: s.opts.Now().UTC(), Code: code, Reason: p.Reason, By: call.Principal.ID}
	stands, err := s.revoke(ctx, e.Serial, why)
	if err != nil {
		return RevokeResult{}, err
	}
	result := RevokeResult{Serial: e.Serial, Status: string(Revoked), Reason: stands.Reason, RevokedAt: stands.At.UnixMilli()}
	if !renewals {
		return result, nil
	}
	for _, r := range s.index.renewedFrom(e.Serial) {
		if _, err := s.revoke(ctx, r.Serial, why); err != nil {
			return result, err
		}
		result.Renewals = append(result.Renewals, r.Serial)
	}
	return result, nil
}

// shows reports whether a call tries to prove that it holds a certificate.
func (s *Service) shows(call *commands.Call, e *entry) bool {
	return call.Principal.CertSerial == e.Serial || len(call.Extension) > 0
}

// revoke stores a revocation unless there is one. When it returns, the serial
// does not count any more on this bridge.
func (s *Service) revoke(ctx context.Context, serial protocol.Serial, why Revocation) (stands *Revocation, err error) {
	c, _, err := records.Change(ctx, s.opts.Certificates, string(serial), func(old *Certificate, _ uint64) (*Certificate, error) {
		switch {
		case old == nil:
			return nil, unknown()
		case old.Revoked != nil:
			return old, nil
		}
		again := *old
		again.Revoked = &why
		return &again, nil
	})
	if err != nil {
		return nil, err
	}
	return c.Revoked, nil
}

// keyCompromise is the code of the reason after which renewals are in doubt
// as well.
const keyCompromise = 1

// reasonCode is the code of RFC 5280 §5.3.1 for a reason in words, in any spelling;
// 0, unspecified, if it is none of them.
func reasonCode(reason string) int {
	plain := strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(reason))
	switch plain {
	case "keycompromise", "keycompromised", "compromised", "compromise":
		return keyCompromise
	case "cacompromise":
		return 2
	case "affiliationchanged":
		return 3
	case "superseded":
		return 4
	case "cessationofoperation":
		return 5
	case "privilegewithdrawn":
		return 9
	}
	return 0
}
