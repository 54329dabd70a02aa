package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the rights that claims give.
const (
	maxRoles  = 100
	maxScopes = 100
	maxID     = 128 // characters
)

// noScope matches no action: a token that its issuer limits, and that has
// nothing of use, is limited to nothing.
const noScope = "none:none"

// idRule is the form of a principal's id, which is a level of topics and a
// sender_id.
var idRule = protocol.AgentID("").Rule()

// principal maps the claims of a verified token.
func (i *Issuer) principal(claims jwt.MapClaims, raw string, expires time.Time, reserved []string) (*protocol.Principal, bool) {
	subject, ok := lookup(claims, i.IDClaim).(string)
	id := i.IDPrefix + subject
	if !ok || subject == "" || utf8.RuneCountInString(id) > maxID || idRule.Check(id) != "" || slices.Contains(reserved, id) {
		return nil, false
	}
	who := &protocol.Principal{
		Kind:       i.Kind,
		ID:         id,
		Space:      i.Space,
		Roles:      i.rolesOf(nil),
		Attributes: map[string]string{"issuer": i.Issuer},
		Credential: credential(claims, raw),
		Method:     protocol.MethodToken,
		Expires:    expires,
		Issued:     issuedAt(claims),
	}
	if i.SpaceClaim != "" {
		space, _ := lookup(claims, i.SpaceClaim).(string)
		if !slices.Contains(i.Spaces, protocol.SpaceID(space)) {
			return nil, false
		}
		who.Space = protocol.SpaceID(space)
	}
	if i.RolesClaim != "" {
		for _, name := range list(lookup(claims, i.RolesClaim), maxRoles) {
			if _, ok := i.Roles[name]; ok && !slices.Contains(who.ClaimedRoles, name) {
				who.ClaimedRoles = append(who.ClaimedRoles, name)
			}
		}
		who.Roles = i.rolesOf(who.ClaimedRoles)
	}
	if i.ScopesClaim != "" {
		for _, scope := range list(lookup(claims, i.ScopesClaim), maxScopes) {
			if scope == "*" || strings.Contains(scope, ":") {
				who.Scopes = append(who.Scopes, scope)
			}
		}
		if who.Scopes == nil {
			who.Scopes = []string{noScope}
		}
	}
	return who, true
}

// rolesOf are the roles of a subject with names in its roles claim.
func (i *Issuer) rolesOf(names []string) []string {
	roles := slices.Clone(i.DefaultRoles)
	for _, name := range names {
		if role, ok := i.Roles[name]; ok && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// lookup finds a claim. A name that is not one leads, by its dots, into
// objects: realm_access.roles.
func lookup(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	first, rest, deeper := strings.Cut(name, ".")
	if inner, ok := claims[first].(map[string]any); ok && deeper {
		return lookup(inner, rest)
	}
	return nil
}

// list reads a list of names, or a text with spaces between them.
func list(v any, most int) []string {
	var all []string
	switch v := v.(type) {
	case string:
		all = strings.Fields(v)
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				all = append(all, s)
			}
		}
	}
	return all[:min(len(all), most)]
}

// credential names a token without giving it away: by its own id, if it has
// one, or by the beginning of its hash.
func credential(claims jwt.MapClaims, raw string) string {
	if id, ok := claims["jti"].(string); ok && id != "" {
		return Credential(id)
	}
	sum := sha256.Sum256([]byte(raw))
	return "sha256-" + hex.EncodeToString(sum[:8])
}

// Credential is the name of a token with this jti as a credential: the jti,
// if it can be shown, or the beginning of its hash.
func Credential(jti string) string {
	if len(jti) <= 64 && protocol.AgentID("").Rule().Check(jti) == "" {
		return jti
	}
	sum := sha256.Sum256([]byte(jti))
	return "jti-" + hex.EncodeToString(sum[:16])
}

// issuedAt is the time when a token says it was issued, zero if it does not.
func issuedAt(claims jwt.MapClaims) time.Time {
	issued, err := claims.GetIssuedAt()
	if err != nil || issued == nil {
		return time.Time{}
	}
	return issued.Time
}

// confirmation reads the certificate that a token is bound to. bound is true for any
// binding, also for one that the bridge does not know and no client can prove.
func confirmation(claims jwt.MapClaims) (thumbprint [32]byte, bound, known bool) {
	cnf, bound := claims["cnf"]
	if !bound {
		return thumbprint, false, true
	}
	members, ok := cnf.(map[string]any)
	if !ok || len(members) != 1 {
		return thumbprint, true, false
	}
	text, _ := members["x5t#S256"].(string)
	thumbprint, known = parseThumbprint(text)
	return thumbprint, true, known
}

func parseThumbprint(text string) (thumbprint [32]byte, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(thumbprint) {
		return thumbprint, false
	}
	return [32]byte(b), true
}
