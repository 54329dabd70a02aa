package pki

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// everything reports whether a principal may do everything: administrators, and
// under --dev everyone.
func everything(who *protocol.Principal) bool {
	return who.Administrator() || who.HasRole(protocol.RoleAnonymous)
}

// officer reports whether a principal decides for an authority: by the role
// officer:operator, or the attribute officer, a list of authorities.
func officer(who *protocol.Principal, a Authority) bool {
	return everything(who) || who.HasRole(officerPrefix+string(a)) ||
		slices.Contains(strings.Split(who.Attributes[officerAttrName], ","), string(a))
}

// mustDecide refuses principals that do not decide for an authority on a scope.
func mustDecide(who *protocol.Principal, a Authority, scope *Scope) error {
	if !officer(who, a) {
		return protocol.Errorf(protocol.PermissionDenied, "only officers of authority %s may do this", a).
			With("role", officerPrefix+string(a))
	}
	if everything(who) {
		return nil
	}
	if scope.Kind == protocol.KindOperator || slices.ContainsFunc(scope.Roles, privileged) {
		return protocol.Errorf(protocol.PermissionDenied, "only administrators grant certificates to operators, or such roles")
	}
	return nil
}

// reserved refuses names that belong to parties of another kind.
func (s *Service) reserved(scope *Scope) error {
	for _, name := range []string{"administrator", "anonymous", s.opts.BridgeID} {
		if scope.ID == name {
			return protocol.Errorf(protocol.PermissionDenied, "the name %q is reserved", name)
		}
	}
	if s.opts.Parties.Clash(scope.holder()) {
		return protocol.Errorf(protocol.AlreadyExists, "the name %q is taken by somebody of another kind", scope.ID).
			With("reason", "people and programs have other names than agents and skills")
	}
	return nil
}

// in is the space a call is about: the one it names, if the caller may see it,
// or the caller's own. It does not reveal whether another exists.
func in(call *commands.Call, named protocol.SpaceID) (protocol.SpaceID, error) {
	home := call.Principal.Home()
	switch {
	case named == "" || named == home:
		return home, nil
	case everything(call.Principal):
		return named, nil
	}
	return "", protocol.Errorf(protocol.NotFound, "there is no space %q", named).With("space_id", string(named))
}

// visible finds a certificate that a caller may know of.
func (s *Service) visible(call *commands.Call, serial protocol.Serial) (*entry, error) {
	e := s.index.find(serial)
	if e == nil || e.scope.Space != call.Principal.Home() && !everything(call.Principal) {
		return nil, protocol.Errorf(protocol.CertificateUnknown, "there is no certificate %s", serial).With("serial", string(serial))
	}
	return e, nil
}

// request finds a request that a caller may know of.
func (s *Service) request(call *commands.Call, id string) (r *Request, revision uint64, err error) {
	r, revision, ok := s.opts.Requests.Get(requestKey(call.Principal.Home(), id))
	if !ok && everything(call.Principal) {
		for key, other := range s.opts.Requests.All() {
			if other.ID == id {
				r, revision, ok = s.opts.Requests.Get(key)
			}
		}
	}
	if !ok {
		return nil, 0, protocol.Errorf(protocol.NotFound, "there is no request %q", id).With("request_id", id)
	}
	return r, revision, nil
}
