package security

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var keyRevoke = commands.Spec{
	Name:    "key.revoke",
	Summary: "Revoke an API key, and disconnect who came in with it.",
	Effect:  commands.Write,
	Action:  "key:revoke",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.RevisionConflict},
	Example: `{"key_id":"0123456789abcdef","reason":"device was sold"}`,
}

// KeyRevokeParams are the params of key.revoke.
type KeyRevokeParams struct {
	ID     string           `json:"key_id" len:"1-64" doc:"id of the key, which is the part of it before the dot, without abk_"`
	Space  protocol.SpaceID `json:"space_id,omitempty" doc:"the key's space, the caller's own by default"`
	Reason string           `json:"reason,omitempty" len:"1-256" text:"lines" doc:"reason, for later readers"`
}

// Target implements [commands.Targeter].
func (p KeyRevokeParams) Target() commands.Resource {
	return commands.Resource{Type: "key", ID: p.ID, Space: p.Space}
}

// Revoke revokes a key for good. Once is as good as twice.
func (s *KeyService) Revoke(ctx context.Context, call *commands.Call, p KeyRevokeParams) (KeyView, error) {
	space, err := spaceFor(call, p.Space)
	if err != nil {
		return KeyView{}, err
	}
	changed := false
	key, _, err := records.Change(ctx, s.keys, p.ID, func(key *Key, _ uint64) (*Key, error) {
		if key == nil || key.Space != space {
			return nil, protocol.Errorf(protocol.NotFound, "there is no key %q", p.ID).With("key_id", p.ID)
		}
		if changed = key.Revoked.IsZero(); !changed {
			return key, nil
		}
		if !call.Principal.Unbounded() && key.principal().Administrator() {
			return nil, denied("key_id", "only an administrator revokes an administrator's key")
		}
		revoked := *key
		revoked.Revoked, revoked.Reason = s.now().UTC(), p.Reason
		return &revoked, nil
	})
	if err != nil {
		return KeyView{}, err
	}
	if changed && s.Changed != nil {
		s.Changed(ctx, KeyEvent{Call: call, Key: key, Revoked: true})
	}
	return s.view(key), nil
}
