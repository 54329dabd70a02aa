package security

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to a record survives every command that changes it,
// unless it is one of those that the command is about.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	t.Run("a key that is revoked", func(t *testing.T) {
		h := newKeyHouse(t)
		made := h.make(t, KeyCreateParams{Principal: "lamp-1"})
		recordstest.Survives(t, h.keys, made.ID, func() {
			if _, err := h.Revoke(t.Context(), by(admin), KeyRevokeParams{ID: made.ID, Reason: "lost"}); err != nil {
				t.Fatal(err)
			}
		}, "Revoked", "Reason")
	})
	t.Run("tokens that are revoked again", func(t *testing.T) {
		table := recordstest.New[Revocation]()
		s := NewTokenService(TokenOptions{Revocations: table, LongestLife: time.Hour})
		revoke := func() string {
			made, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Principal: "alice", Reason: "she left"})
			if err != nil {
				t.Fatal(err)
			}
			return made.ID
		}
		recordstest.Survives(t, table, revoke(), func() { revoke() }, "Before", "Until", "Reason", "By", "At", "-Token", "-Kind", "-Issuer")
	})
}
