package security

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// shownUsers bounds the keys that a refusal names.
const shownUsers = 10

var secretRetire = commands.Spec{
	Name:    "secret.retire",
	Summary: "Retire a version of a secret that nothing needs any more: it is removed, and nothing is recognised by it from then on.",
	Effect:  commands.Write,
	Action:  "secret:retire",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.NotFound, protocol.InvalidState},
	Example: `{"secret":"pepper","version":"1"}`,
}

// SecretRetireParams are the params of secret.retire.
type SecretRetireParams struct {
	Secret  SecretName `json:"secret" enum:"pepper,data_key,seal_key,ca_key,authorities" doc:"which one; data keys are refused, as logs that are only added to need them"`
	Version string     `json:"version" len:"1-64" doc:"one that secret.status says is open and has no uses"`
	Gone    []string   `json:"gone,omitempty" len:"0-100" doc:"ids of bridges that will not come back, or come with another copy of the key file: what they have in their data folder is not waited for"`
}

// Target implements [commands.Targeter].
func (p SecretRetireParams) Target() commands.Resource {
	return commands.Resource{Type: "secret", ID: string(p.Secret)}
}

// Retire retires a version, once or more often. It is refused while a credential
// that is good needs it.
func (s *SecretService) Retire(ctx context.Context, call *commands.Call, p SecretRetireParams) (SecretView, error) {
	if err := administrator(call.Principal); err != nil {
		return SecretView{}, err
	}
	secret, err := s.secret(p.Secret)
	if err != nil {
		return SecretView{}, err
	}
	if err := s.unused(p); err != nil {
		return SecretView{}, err
	}
	if err := secret.Retire(ctx, p); err != nil {
		return SecretView{}, err
	}
	return s.view(p.Secret), nil
}

// unused refuses to retire a version that credentials need, with their number and
// the API keys among them.
func (s *SecretService) unused(p SecretRetireParams) error {
	if p.Secret != PepperSecret {
		return nil
	}
	versions := s.view(p.Secret).Versions
	at := slices.IndexFunc(versions, func(v SecretVersion) bool { return v.Version == p.Version })
	if at < 0 || versions[at].State == SecretActive || len(versions[at].Uses) == 0 {
		return nil // or it is refused for another reason
	}
	now := s.Ring.now()
	var users []string
	for id, key := range s.Ring.keys.All() {
		if under := s.Ring.peppers.of(key.Pepper); under != nil && string(under.id) == string(versions[at].id) && key.live(now) {
			users = append(users, id)
		}
	}
	slices.Sort(users)
	return protocol.Errorf(protocol.InvalidState, "version %s is still needed: an API key moves to the newest version when it is next shown, and a join token ends by itself; revoke the keys that nobody will show again", p.Version).
		With("uses", versions[at].Uses).With("key_ids", users[:min(len(users), shownUsers)])
}
