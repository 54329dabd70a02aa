package protocol

import (
	"slices"
	"time"
)

// DefaultSpace is the tenant of every principal without a space of its own.
const DefaultSpace SpaceID = "default"

// Kind is the sort of a [Principal].
type Kind string

// The kinds of principals.
const (
	KindOperator Kind = "operator" // a person or a tool that acts for one
	KindAgent    Kind = "agent"
	KindSkill    Kind = "skill"
	KindBridge   Kind = "bridge" // the bridge itself
)

// Roles that the bridge itself gives meaning to. The policies that come with
// it say what each of them may do.
const (
	RoleAdministrator = "administrator"
	RoleOperator      = "operator"
	RoleRouteAgent    = "route_agent"
	RoleEndAgent      = "end_agent"
	RoleSkill         = "skill"
	RoleObserver      = "observer"
	RoleAnonymous     = "anonymous" // everyone under serve --dev
)

// Ways to authenticate.
const (
	MethodAnonymous   = "anonymous"
	MethodAPIKey      = "apikey"
	MethodToken       = "jwt"
	MethodCertificate = "certificate"
	MethodPassword    = "password" // with a user name that is neither for keys nor for tokens
	MethodBridge      = "bridge"   // not at all: what the bridge does on its own
)

// A Principal is the authenticated party behind a connection or a request, as
// authenticated. It is immutable once made and shared between goroutines.
type Principal struct {
	Kind       Kind
	ID         string // unique among those of its kind and space
	Space      SpaceID
	Roles      []string
	Attributes map[string]string
	Credential string    // id of the credential shown, never the secret
	Method     string    // how it authenticated, one of the Method constants
	Scopes     []string  // actions it is limited to, such as skill:invoke or skill:*; none limits nothing
	Expires    time.Time // of the credential; zero never
	Issued     time.Time // when a token says it was issued; zero if it does not, and for other credentials

	// ClaimedRoles are the names in the roles claim of a token that give it
	// Roles, by the configuration of its issuer.
	ClaimedRoles []string

	// CertSerial is the serial of the certificate whose key the principal has
	// proved to hold, by mutual TLS or by a token that is bound to it; "" for
	// none.
	CertSerial Serial
}

// Same reports whether both are one party, whatever they showed this time.
func (p *Principal) Same(other *Principal) bool {
	return p.Party() == other.Party()
}

func home(space SpaceID) SpaceID {
	if space == "" {
		return DefaultSpace
	}
	return space
}

// HasRole reports whether the principal was given the role.
func (p *Principal) HasRole(role string) bool {
	return slices.Contains(p.Roles, role)
}

// Home is the space the principal belongs to.
func (p *Principal) Home() SpaceID { return home(p.Space) }

// Unbounded reports whether the principal may do everything in every space:
// an administrator, or anybody under --dev.
func (p *Principal) Unbounded() bool {
	return p.HasRole(RoleAdministrator) || p.HasRole(RoleAnonymous)
}

// Manages reports whether the principal may change what belongs to others in a
// space, as far as policy lets it change anything: operators in their own.
func (p *Principal) Manages(space SpaceID) bool {
	return p.Unbounded() || p.HasRole(RoleOperator) && p.Home() == home(space)
}

// Administrator reports whether the principal may do everything.
func (p *Principal) Administrator() bool { return p.HasRole(RoleAdministrator) }
