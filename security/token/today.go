package token

import (
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Today returns the principal of a token, with the rights that the configuration gives
// the same token now. It fails if the issuer is not trusted any more, or may not issue
// such a token any more. It judges the stored principal, since the token itself is not
// stored.
func (v *Verifier) Today(was *protocol.Principal) (*protocol.Principal, error) {
	name := was.Attributes["issuer"]
	issuer := v.issuers[name]
	if issuer == nil {
		return nil, untrusted("the issuer %q of the token is not trusted any more", name)
	}
	switch {
	case was.Kind != issuer.Kind, !strings.HasPrefix(was.ID, issuer.IDPrefix), slices.Contains(v.reserved, was.ID), !issuer.serves(was.Home()):
		return nil, untrusted("the issuer %q may not speak for %s %q any more", name, was.Kind, was.ID)
	case issuer.RequireIAT && was.Issued.IsZero():
		return nil, untrusted("tokens of the issuer %q must say when they were issued", name)
	case !was.Issued.IsZero() && was.Expires.Sub(was.Issued) > issuer.MaxLifetime+time.Second:
		return nil, untrusted("tokens of the issuer %q may not last that long any more", name)
	}
	who := *was
	if issuer.RolesClaim == "" {
		who.ClaimedRoles = nil
	}
	who.Roles = issuer.rolesOf(who.ClaimedRoles)
	if issuer.ScopesClaim != "" && len(was.Scopes) == 0 {
		who.Scopes = []string{noScope} // its scopes are unknown
	}
	return &who, nil
}

func untrusted(format string, args ...any) error {
	return protocol.Errorf(protocol.CredentialInvalid, format, args...).With("reason", "issuer")
}

// serves reports whether the issuer may place its subjects in a space.
func (i *Issuer) serves(space protocol.SpaceID) bool {
	if i.SpaceClaim == "" {
		return space == i.Space
	}
	return slices.Contains(i.Spaces, space)
}
