package pki

import (
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to a record survives every command that changes it,
// unless it is one of those that the command is about.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	t.Run("a request that is decided and issued", func(t *testing.T) {
		for _, decide := range []string{"cert.approve", "cert.reject"} {
			w := newWorld(t)
			asked := must[Result](w, dana, "cert.request", lighting(csrOf(t, ecdsaKey(t))))
			id, key := object{"request_id": asked.RequestID}, requestKey("default", asked.RequestID)
			recordstest.Survives(t, w.state.requests, key, func() { must[Result](w, olivia, decide, id) },
				"AnyName", "State", "DecidedBy", "DecidedAt", "Reason", "-Serial")
			if decide == "cert.approve" {
				recordstest.Survives(t, w.state.requests, key, func() { must[Result](w, dana, "cert.issue", id) }, "State", "Serial")
			}
		}
	})
	t.Run("a certificate that is revoked", func(t *testing.T) {
		w := newWorld(t)
		h := w.hold()
		recordstest.Survives(t, w.state.certificates, string(h.serial), func() {
			must[RevokeResult](w, root, "cert.revoke", object{"serial": h.serial, "reason": "lost"})
		}, "Revoked")
	})
	t.Run("a token that is redeemed", func(t *testing.T) {
		w := newWorld(t)
		made := must[TokenResult](w, root, "cert.token.create", object{"authority": "appstore", "skill_id": "lamp"})
		recordstest.Survives(t, w.state.tokens, made.TokenID, func() {
			must[Result](w, dana, "cert.request", object{"token": made.Token, "csr": csrOf(t, ecdsaKey(t))})
		}, "Serial")
	})
}
