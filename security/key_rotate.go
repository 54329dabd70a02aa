package security

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/seal"
)

var keyRotate = commands.Spec{
	Name:    "key.rotate",
	Summary: "Make a new data key, which seals what the bridge keeps sealed, and seal anew what older ones have sealed.",
	Effect:  commands.Write,
	Action:  "key:rotate",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.InvalidState},
	Example: `{}`,
}

// DataKeys are the keys that seal secrets on the disk, see
// [seal.Ring].
type DataKeys interface {
	Rotate(ctx context.Context) (id string, err error)
	List() []seal.View
}

// KeyRotateParams are the params of key.rotate.
type KeyRotateParams struct{}

// KeyRotateResult is the result of key.rotate.
type KeyRotateResult struct {
	KeyID    string      `json:"key_id" doc:"id of the new data key"`
	Resealed int         `json:"resealed" doc:"values that were sealed anew; what is only ever added to, such as records of runs, keeps its key"`
	Keys     []seal.View `json:"keys" doc:"all data keys, the newest first"`
}

// Rotate makes a new data key. Sealed values can be read all the while; a
// rotation that ends half way is made good by the next one.
func (s *KeyService) Rotate(ctx context.Context, call *commands.Call, _ KeyRotateParams) (result KeyRotateResult, err error) {
	if !call.Principal.Unbounded() {
		return result, protocol.Errorf(protocol.PermissionDenied, "only an administrator rotates the data keys, which are those of all spaces")
	}
	if s.DataKeys == nil {
		return result, protocol.Errorf(protocol.InvalidState, "this bridge keeps nothing sealed")
	}
	if result.KeyID, err = s.DataKeys.Rotate(ctx); err != nil {
		return result, err
	}
	if s.Reseal != nil {
		if result.Resealed, err = s.Reseal(ctx); err != nil {
			return result, err
		}
	}
	result.Keys = s.DataKeys.List()
	return result, nil
}
