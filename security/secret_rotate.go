package security

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var secretRotate = commands.Spec{
	Name:    "secret.rotate",
	Summary: "Make a new version of a secret, with which all that is new is made. Nothing stops, and nothing that counts ceases to.",
	Effect:  commands.Write,
	Action:  "secret:rotate",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.InvalidState},
	Example: `{"secret":"pepper"}`,
}

// SecretRotateParams are the params of secret.rotate.
type SecretRotateParams struct {
	Secret SecretName `json:"secret" enum:"pepper,data_key,seal_key,ca_key,authorities" doc:"pepper: API keys are recognised by it, each by the new version after it was next shown; data_key: values are sealed with it, and those that can be are sealed anew; seal_key: data keys are sealed with it; ca_key: the keys of the authorities are sealed with it; authorities: they issue certificates, under the same root, and those that older ones have issued count until they end"`
}

// Target implements [commands.Targeter].
func (p SecretRotateParams) Target() commands.Resource {
	return commands.Resource{Type: "secret", ID: string(p.Secret)}
}

// SecretRotateResult is the result of secret.rotate.
type SecretRotateResult struct {
	Version  string `json:"version" doc:"the new version"`
	Resealed int    `json:"resealed" doc:"values that this bridge has sealed anew with the new version; others may have been quicker; what is only ever added to, such as records of runs, keeps its data key"`
	SecretView
}

// Rotate makes a version, waits until all bridges know it, and has it be used. A
// rotation that ended half way is gone on with.
func (s *SecretService) Rotate(ctx context.Context, call *commands.Call, p SecretRotateParams) (result SecretRotateResult, err error) {
	if err := administrator(call.Principal); err != nil {
		return result, err
	}
	secret, err := s.secret(p.Secret)
	if err != nil {
		return result, err
	}
	if result.Version, err = secret.Stage(ctx); err != nil {
		return result, err
	}
	if err := s.confirm(ctx, p.Secret, result.Version); err != nil {
		return result, err
	}
	if err := secret.Activate(ctx, result.Version); err != nil {
		return result, err
	}
	if sealing, ok := secret.(Resealer); ok {
		if result.Resealed, err = sealing.Reseal(ctx); err != nil {
			return result, err
		}
	}
	result.SecretView = s.view(p.Secret)
	return result, nil
}

// reseal has all parts seal anew the values that older data keys have sealed.
func (s *SecretService) reseal(ctx context.Context) (n int, err error) {
	for _, part := range append(s.SecretOptions.Reseal, s.Ring.Reseal) {
		anew, err := part(ctx)
		if n += anew; err != nil {
			return n, err
		}
	}
	return n, nil
}
