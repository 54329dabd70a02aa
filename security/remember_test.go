package security

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// TestAConnectionRemembersWhoItRecognised counts how often a credential is verified.
func TestAConnectionRemembersWhoItRecognised(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, lampKey, fanKey := everyWay(t)
		var verified int
		var ended error
		a.options.Settled = func(context.Context, Attempt) { verified++ }
		a.options.Check = func(*protocol.Principal) error { return ended }
		ctx := Remembering(t.Context())
		show := func(ctx context.Context, secret string) *protocol.Principal {
			t.Helper()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
			r.Header.Set("Authorization", "Bearer "+secret)
			who, err := a.Request(r)
			if err != nil {
				return nil
			}
			return who
		}
		lamp := show(ctx, lampKey)
		if again := show(ctx, lampKey); again == nil || again != lamp || verified != 1 {
			t.Errorf("%v again, verified %d times", again, verified)
		}
		if fan := show(ctx, fanKey); fan == nil || fan.ID != "fan" || verified != 2 {
			t.Errorf("another key is %v's, verified %d times", fan, verified)
		}
		if who := show(ctx, lampKey+"x"); who != nil {
			t.Errorf("a wrong key is %s's", who.ID)
		}
		if verified = 0; show(t.Context(), fanKey) == nil || verified != 1 {
			t.Errorf("another connection: verified %d times", verified)
		}
		if ended = errors.New("revoked"); show(ctx, fanKey) == nil || verified != 2 {
			t.Errorf("a credential that is not good any more: verified %d times", verified)
		}
		ended = nil
		show(ctx, fanKey)
		time.Sleep(remembered)
		if verified = 0; show(ctx, fanKey) == nil || verified != 1 {
			t.Errorf("after a while: verified %d times", verified)
		}
	})
}
