package security

import (
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestOnlyThePrivilegedRunCommandsAndSpeakForOthers(t *testing.T) {
	for who, want := range map[*protocol.Principal]protocol.Code{admin: "", anonymous: "", device: protocol.PermissionDenied} {
		if got := protocol.CodeOf(Authorizer{}.Authorize(t.Context(), who, "skill:invoke", commands.Resource{})); got != want {
			t.Errorf("%s runs a command: %q, want %q", who.ID, got, want)
		}
		if got := protocol.CodeOf(Authorizer{}.ActFor(t.Context(), who, "somebody")); got != want {
			t.Errorf("%s speaks for somebody: %q, want %q", who.ID, got, want)
		}
		if err := (Authorizer{}).ActFor(t.Context(), who, who.ID); err != nil {
			t.Errorf("%s may not speak for itself: %v", who.ID, err)
		}
	}
}
