package protocol

import "slices"

// DefaultSpace is the tenant of everyone who was not placed elsewhere.
const DefaultSpace SpaceID = "default"

// Kind says what sort of party a [Principal] is.
type Kind string

// The kinds of principals.
const (
	KindOperator Kind = "operator" // a person or a tool that acts for one
	KindAgent    Kind = "agent"
	KindSkill    Kind = "skill"
	KindBridge   Kind = "bridge" // the bridge itself
)

// Roles that the bridge itself gives meaning to.
const (
	RoleAdministrator = "administrator"
	RoleAnonymous     = "anonymous" // everyone under serve --dev
)

// A Principal is who stands behind a connection or a request, as
// authenticated. It is immutable once made and shared between goroutines.
type Principal struct {
	Kind       Kind
	ID         string // unique among principals; what audit and deduplication use
	Space      SpaceID
	Roles      []string
	Attributes map[string]string
	Credential string // id of the credential shown, never the secret
	CertSerial Serial // serial of the peer certificate, "" without one
}

// HasRole reports whether the principal was given the role.
func (p *Principal) HasRole(role string) bool {
	return slices.Contains(p.Roles, role)
}

// Administrator reports whether the principal may do everything.
func (p *Principal) Administrator() bool { return p.HasRole(RoleAdministrator) }
