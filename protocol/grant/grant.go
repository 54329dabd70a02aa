// Package grant holds a call's leave to outlive it, instead of its principal: leave to go
// on acting for the principal, as long as the principal may act.
package grant

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Grant is leave to act for the principal that it was given by, after its
// call has ended: for a task, a workflow, a dispatch, a stream, a transfer. It
// says which credential it stands on. It is no principal and not to be made one
// by hand: the [Authority] says, before every act, what the credential still
// allows.
//
// Roles, Scopes and Attributes are those of the credential when the grant was given. They
// are kept for credentials that cannot be looked up later, and give no right.
type Grant struct {
	ID           string            `json:"id"`
	Kind         protocol.Kind     `json:"kind"`
	Space        protocol.SpaceID  `json:"space"`
	Method       string            `json:"method,omitempty"`
	Credential   string            `json:"credential,omitempty"`
	CertSerial   protocol.Serial   `json:"cert_sn,omitempty"`
	Roles        []string          `json:"roles,omitempty"`
	ClaimedRoles []string          `json:"claimed_roles,omitempty"`
	Scopes       []string          `json:"scopes,omitempty"`
	Attributes   map[string]string `json:"attributes,omitempty"`
	Issued       time.Time         `json:"issued,omitzero"`
	Expires      time.Time         `json:"expires,omitzero"`
}

// Of is a grant by a principal.
func Of(p *protocol.Principal) Grant {
	return Grant{
		ID: p.ID, Kind: p.Kind, Space: p.Home(), Method: p.Method, Credential: p.Credential, CertSerial: p.CertSerial,
		Roles: p.Roles, ClaimedRoles: p.ClaimedRoles, Scopes: p.Scopes, Attributes: p.Attributes, Issued: p.Issued, Expires: p.Expires,
	}
}

// Party is the giver of the grant, whatever credential it showed then.
func (g *Grant) Party() protocol.Party {
	return protocol.Party{Kind: g.Kind, Space: cmp.Or(g.Space, protocol.DefaultSpace), ID: g.ID}
}

// By reports whether a grant is of a principal, whatever that showed this time.
func (g *Grant) By(who *protocol.Principal) bool { return g.Party() == who.Party() }

// An Authority judges grants. Its methods do not block.
type Authority interface {
	// Principal returns the giver of a grant, with the rights of its credential
	// at this moment. 2002 says that the credential has expired or was revoked,
	// or that its issuer is not trusted any more; 2006 and 2007 that its
	// certificate has ended.
	Principal(g Grant) (*protocol.Principal, error)
	// OnEnd has f called on a goroutine of its own, once, as soon as Principal
	// refuses the grant, with that error; at once if it does so already. Stop
	// forgets about it, and reports whether f was not called.
	OnEnd(g Grant, f func(why error)) (stop func() bool)
}

// Expired reports whether an [Authority] refuses a grant because its time is
// over, and not because it was taken back.
func Expired(why error) bool {
	e, ok := errors.AsType[*protocol.Error](why)
	return ok && (e.Code == protocol.CertificateExpired || e.Details["reason"] == ReasonExpired)
}

// ReasonExpired is details.reason of a 2002 about a credential whose time is
// over.
const ReasonExpired = "expired"

// While is a context that also ends when a grant does. The reason is its cause.
func While(ctx context.Context, a Authority, g Grant) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := a.OnEnd(g, cancel)
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Unlimited is the [Authority] for which every grant holds for ever, with the
// rights it was given with. It is for tests, and for parts of the bridge that
// run without credentials.
type Unlimited struct{}

// Principal implements [Authority].
func (Unlimited) Principal(g Grant) (*protocol.Principal, error) { return Original(g), nil }

// OnEnd implements [Authority].
func (Unlimited) OnEnd(Grant, func(error)) (stop func() bool) { return func() bool { return true } }

// Original is the principal as it was when it gave the grant. Authorities alone
// call it, to begin with: what it may do now is theirs to say.
func Original(g Grant) *protocol.Principal {
	return &protocol.Principal{
		ID: g.ID, Kind: g.Kind, Space: g.Space, Method: g.Method, Credential: g.Credential, CertSerial: g.CertSerial,
		Roles: g.Roles, ClaimedRoles: g.ClaimedRoles, Scopes: g.Scopes, Attributes: g.Attributes, Issued: g.Issued, Expires: g.Expires,
	}
}
