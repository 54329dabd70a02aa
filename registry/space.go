package registry

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// everywhere reports whether a principal may name any space.
func everywhere(who *protocol.Principal) bool {
	return who.HasRole(protocol.RoleAdministrator) || who.HasRole(protocol.RoleAnonymous)
}

// in is the space a call is about: the one it names, if the caller may see it,
// or the caller's own. It does not reveal whether a space that the caller may not
// see exists (docs/protocol.md#spaces).
func in(call *commands.Call, named protocol.SpaceID) (protocol.SpaceID, error) {
	home := call.Principal.Home()
	if named == "" || named == home || everywhere(call.Principal) {
		if named == "" {
			named = home
		}
		return named, nil
	}
	return "", protocol.Errorf(protocol.NotFound, "there is no space %q", named).With("space_id", named)
}

// mayManage reports whether a principal may change a thing of an owner in a space
// that the principal may see.
func mayManage(who *protocol.Principal, owner protocol.Party) bool {
	return owner.Is(who) || everywhere(who) || who.HasRole(protocol.RoleOperator)
}

// notFound is the error for a thing that is not in the space.
func notFound[ID ~string](what string, id ID) *protocol.Error {
	return protocol.Errorf(protocol.NotFound, "there is no %s %q", what, string(id)).With(what+"_id", string(id))
}

// notYours is the error for a thing that another principal registered.
func notYours[ID ~string](what string, id ID) error {
	return protocol.Errorf(protocol.PermissionDenied, "%s %q was registered by somebody else", what, string(id)).With(what+"_id", string(id))
}
