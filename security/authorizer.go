package security

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Authorizer decides about commands: administrators, and under --dev
// everybody, may run all of them for anyone; nobody else may run any.
type Authorizer struct{}

var _ commands.Authorizer = Authorizer{}

// Authorize reports whether the principal may run a command.
func (Authorizer) Authorize(_ context.Context, who *protocol.Principal, action string, _ commands.Resource) error {
	if privileged(who) {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "not allowed").With("action", action)
}

// ActFor reports whether the principal may speak for a sender.
func (Authorizer) ActFor(_ context.Context, who *protocol.Principal, senderID string) error {
	if mayActFor(who, senderID) {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "sender_id is not yours").
		With("param_name", "metadata.sender_id").
		With("reason", "must equal the authenticated identity")
}

// privileged are those who may do everything.
func privileged(who *protocol.Principal) bool {
	return who.HasRole(protocol.RoleAdministrator) || who.HasRole(protocol.RoleAnonymous)
}

// mayActFor reports whether somebody may speak in another's name.
func mayActFor(who *protocol.Principal, id string) bool {
	return who.ID == id || privileged(who)
}
