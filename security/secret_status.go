package security

import (
	"context"
	"maps"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var secretStatus = commands.Spec{
	Name:    "secret.status",
	Summary: "Show the versions of the secrets of the bridge, and what still needs them. The secrets themselves are never shown.",
	Effect:  commands.Read,
	Action:  "secret:status",
	Errors:  []protocol.Code{protocol.PermissionDenied},
	Example: `{}`,
}

// SecretStatusParams are the params of secret.status.
type SecretStatusParams struct{}

// SecretStatusResult is the result of secret.status.
type SecretStatusResult struct {
	Secrets []SecretView `json:"secrets" doc:"by name; empty for a bridge that keeps nothing sealed"`
}

// Status shows all secrets.
func (s *SecretService) Status(_ context.Context, call *commands.Call, _ SecretStatusParams) (SecretStatusResult, error) {
	result := SecretStatusResult{Secrets: []SecretView{}}
	if err := administrator(call.Principal); err != nil {
		return result, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.secrets)) {
		result.Secrets = append(result.Secrets, s.view(name))
	}
	return result, nil
}
