package security

import (
	"context"
	"errors"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/seal"
)

// dataKeys counts its rotations.
type dataKeys struct{ rotations int }

func (k *dataKeys) Rotate(context.Context) (string, error) {
	k.rotations++
	return "new", nil
}

func (k *dataKeys) List() []seal.View { return []seal.View{{ID: "new", Seals: true}, {ID: "old"}} }

func TestOnlyAnAdministratorRotatesDataKeys(t *testing.T) {
	keys := &dataKeys{}
	h := newKeyHouse(t)
	rotate := func(who *protocol.Principal) (KeyRotateResult, error) {
		return h.Rotate(t.Context(), by(who), KeyRotateParams{})
	}
	if _, err := rotate(admin); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("without data keys: %v", err)
	}
	h.DataKeys = keys
	operator := &protocol.Principal{ID: "anna", Roles: []string{protocol.RoleOperator}}
	if _, err := rotate(operator); protocol.CodeOf(err) != protocol.PermissionDenied || keys.rotations != 0 {
		t.Errorf("an operator: %v, %d rotations", err, keys.rotations)
	}
	resealing := error(nil)
	h.Reseal = func(context.Context) (int, error) { return 3, resealing }
	if got, err := rotate(admin); err != nil || got.KeyID != "new" || got.Resealed != 3 || len(got.Keys) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	resealing = errors.New("the disk is full")
	if _, err := rotate(admin); !errors.Is(err, resealing) {
		t.Errorf("what could not be sealed anew: %v", err)
	}
}
