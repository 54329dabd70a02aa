package security

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/password"
)

// onePassword is everybody's.
type onePassword struct{ judged int }

func (p *onePassword) Verify(_ context.Context, l password.Login) (*protocol.Principal, error) {
	p.judged++
	if l.Password != "right" {
		return nil, password.ErrWrong
	}
	return &protocol.Principal{Kind: protocol.KindAgent, ID: l.User, Space: protocol.DefaultSpace, Method: protocol.MethodPassword}, nil
}

func (*onePassword) Stands(*protocol.Principal) bool { return true }

// TestPasswordsAreNotFoundByTrying has somebody guess: by then not even the right
// password is let in, until the wait is over, nor from where the guesses come
// from another, nor for the same user from elsewhere. A device that was at home
// there stays in.
func TestPasswordsAreNotFoundByTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passwords := new(onePassword)
		a := NewAuthenticator(AuthenticatorOptions{Keys: openRing(t, t.TempDir(), recordstest.New[Key]()), Passwords: passwords})
		try := func(user, word, from string) protocol.Code {
			_, err := a.Password(t.Context(), Shown{From: netip.MustParseAddr(from)}, user, []byte(word))
			return protocol.CodeOf(err)
		}
		const attacker, elsewhere, home = "192.0.2.1", "192.0.2.2", "192.0.2.3"
		for _, at := range []string{attacker, home} {
			if code := try("regular", "right", at); code != "" {
				t.Fatal(code)
			}
		}
		for range freeFailures {
			if code := try("lamp", "wrong", attacker); code != protocol.CredentialInvalid {
				t.Fatalf("a wrong password is answered %s", code)
			}
		}
		before := passwords.judged
		for _, test := range []struct {
			user, from string
			want       protocol.Code
		}{
			{"lamp", attacker, protocol.RateLimited},
			{"lamp", elsewhere, protocol.RateLimited},
			{"other", attacker, protocol.RateLimited},
			{"other", elsewhere, ""},
			{"regular", attacker, ""},
			{"regular", attacker, ""}, // it was right, and stays a regular
			{"regular", home, ""},
		} {
			if code := try(test.user, "right", test.from); code != test.want {
				t.Errorf("the right password of %s from %s: %q, want %q", test.user, test.from, code, test.want)
			}
		}
		if judged := passwords.judged - before; judged != 4 {
			t.Errorf("%d passwords were looked at", judged)
		}
		if code := try("regular", "wrong", attacker); code != protocol.RateLimited {
			t.Errorf("a neighbour's guess: %q", code)
		}
		if code := try("regular", "right", attacker); code != protocol.RateLimited {
			t.Errorf("and the next: %q", code)
		}
		time.Sleep(waitFor) // in the bubble's time
		if code := try("lamp", "right", attacker); code != "" {
			t.Errorf("after the wait: %q", code)
		}
	})
}

func TestRegularsAreForgottenRatherThanTooMany(t *testing.T) {
	r := new(regulars)
	for i := range maxRemembered + 100 {
		r.add(regular(address(i), "lamp"))
	}
	if n := len(r.known); n != maxRemembered {
		t.Errorf("remembers %d", n)
	}
}
