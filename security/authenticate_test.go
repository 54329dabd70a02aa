package security

import (
	"context"
	"crypto/x509"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func authenticator(ring *Keyring, dev bool) *Authenticator {
	return NewAuthenticator(AuthenticatorOptions{Keys: ring, Dev: dev})
}

func TestCredentialsOverHTTP(t *testing.T) {
	dir, keys := t.TempDir(), recordstest.New[Key]()
	ring := openRing(t, dir, keys)
	if _, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	key := adminKey(t, dir)
	for name, test := range map[string]struct {
		header, value string
		want          protocol.Code
	}{
		"bearer":             {"Authorization", "Bearer " + key, ""},
		"bearer, lower case": {"Authorization", "bearer " + key, ""},
		"its own header":     {"X-API-Key", key, ""},
		"nothing":            {"X-Other", "", protocol.NotAuthenticated},
		"basic":              {"Authorization", "Basic " + key, protocol.CredentialInvalid},
		"no token":           {"Authorization", "Bearer", protocol.CredentialInvalid},
		"wrong key":          {"Authorization", "Bearer abk_x.y", protocol.CredentialInvalid},
	} {
		bubble.Test(t, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set(test.header, test.value)
			_, err := authenticator(ring, false).Request(r)
			if got := protocol.CodeOf(err); got != test.want {
				t.Errorf("%s: got %q, want %q", name, got, test.want)
			}
		})
	}
}

func TestAnonymousAccessNeedsDev(t *testing.T) {
	ring := openRing(t, t.TempDir(), recordstest.New[Key]())
	for user, password := range map[string]string{"": "", "sensor": ""} {
		if _, err := authenticator(ring, false).Password(t.Context(), Shown{}, user, []byte(password)); protocol.CodeOf(err) != protocol.NotAuthenticated {
			t.Errorf("user %q: %v", user, err)
		}
		who, err := authenticator(ring, true).Password(t.Context(), Shown{}, user, []byte(password))
		if err != nil || who.ID != "anonymous" {
			t.Errorf("user %q under dev: %v, %v", user, who, err)
		}
	}
}

func TestWhoShowsARightKeyOrUnderDevNothingIsRecognisedAtOnce(t *testing.T) {
	dir := t.TempDir()
	ring := openRing(t, dir, recordstest.New[Key]())
	if _, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	key := adminKey(t, dir)
	settled := 0
	for name, test := range map[string]struct {
		dev            bool
		user, password string
		want           string
	}{
		"a key":                   {false, "apikey", key, "administrator"},
		"a key, some user":        {true, "lamp", key, "administrator"},
		"nothing":                 {false, "", "", ""},
		"nothing under dev":       {true, "", "", "anonymous"},
		"a password under dev":    {true, "lamp", "secret", "anonymous"},
		"a password":              {false, "lamp", "secret", ""},
		"a wrong key":             {false, "apikey", "abk_x.y", ""},
		"a wrong key under dev":   {true, "apikey", "abk_x.y", ""},
		"apikey without, dev":     {true, "apikey", "", ""},
		"a token, which may wait": {true, "jwt", "eyJ.lamp.x", ""},
	} {
		a := NewAuthenticator(AuthenticatorOptions{Keys: ring, Dev: test.dev, Settled: func(_ context.Context, at Attempt) {
			if at.Who == nil || at.Err != nil {
				t.Errorf("%s: settled %v, %v", name, at.Who, at.Err)
			}
			settled++
		}})
		settled = 0
		who := a.Recognise(Shown{}, test.user, []byte(test.password))
		if got := id(who); got != test.want || settled != min(1, len(got)) {
			t.Errorf("%s: recognised %q, want %q; settled %d times", name, got, test.want, settled)
		}
		if who := a.Recognise(Shown{Certificate: &x509.Certificate{}}, test.user, []byte(test.password)); who != nil {
			t.Errorf("%s: recognised %q, whose certificate nobody looked at", name, who.ID)
		}
	}
}

func id(who *protocol.Principal) string {
	if who == nil {
		return ""
	}
	return who.ID
}

func TestAWrongKeyIsRefusedUnderDevToo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := authenticator(openRing(t, t.TempDir(), recordstest.New[Key]()), true)
		if _, err := a.Password(t.Context(), Shown{}, UserAPIKey, []byte("abk_x.y")); protocol.CodeOf(err) != protocol.CredentialInvalid {
			t.Errorf("got %v", err)
		}
	})
}

func TestFailuresAreDelayedAndThenLimitedPerAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := authenticator(openRing(t, t.TempDir(), recordstest.New[Key]()), false)
		attacker, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		try := func(from netip.Addr) (protocol.Code, time.Duration) {
			start := time.Now()
			_, err := a.Authenticate(t.Context(), Shown{Secret: "abk_wrong", From: from})
			return protocol.CodeOf(err), time.Since(start)
		}
		var before time.Duration
		for range freeFailures {
			code, took := try(attacker)
			if code != protocol.CredentialInvalid || took < max(firstDelay, min(2*before, longestDelay)) {
				t.Errorf("answered %s after %v, the one before after %v", code, took, before)
			}
			before = took
		}
		if code, took := try(attacker); code != protocol.RateLimited || took != 0 {
			t.Errorf("the attacker is answered %s after %v", code, took)
		}
		if code, _ := try(other); code != protocol.CredentialInvalid {
			t.Errorf("another address is answered %s", code)
		}
		time.Sleep(waitFor) // in the bubble's time
		if code, took := try(attacker); code != protocol.CredentialInvalid || took != firstDelay {
			t.Errorf("after the wait: %s after %v", code, took)
		}
	})
}

func TestAttemptsAtOnceAreLimitedToo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := authenticator(openRing(t, t.TempDir(), recordstest.New[Key]()), false)
		var answered atomic.Int32
		for range 1000 {
			go func() {
				if _, err := a.Authenticate(t.Context(), Shown{Secret: "abk_wrong", From: netip.MustParseAddr("192.0.2.1")}); protocol.CodeOf(err) == protocol.CredentialInvalid {
					answered.Add(1)
				}
			}()
		}
		time.Sleep(longestDelay)
		synctest.Wait()
		if n := answered.Load(); n != freeFailures {
			t.Errorf("%d attempts were looked at", n)
		}
	})
}

func TestTheRightKeyIsLetInFromAnAddressThatFailed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ring := openRing(t, dir, recordstest.New[Key]())
		if _, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil {
			t.Fatal(err)
		}
		a := authenticator(ring, false)
		home := netip.MustParseAddr("192.0.2.1")
		for range 2 * freeFailures {
			_, _ = a.Authenticate(t.Context(), Shown{Secret: "abk_of_an_old_device", From: home})
		}
		if _, err := a.Authenticate(t.Context(), Shown{Secret: adminKey(t, dir), From: home}); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailureDoesNotOutliveItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := authenticator(openRing(t, t.TempDir(), recordstest.New[Key]()), false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if _, err := a.Authenticate(ctx, Shown{Secret: "abk_wrong", From: netip.Addr{}}); protocol.CodeOf(err) != protocol.CredentialInvalid || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestRefusalsDoNotTellWhichPartWasWrong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ring := openRing(t, dir, recordstest.New[Key]())
		if _, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil {
			t.Fatal(err)
		}
		id, _, _ := parseKey(adminKey(t, dir))
		_, _, unknown := newKey()
		_, other, _ := newKey()
		var texts []string
		for i, key := range []string{unknown, "abk_" + id + "." + other, "garbage"} {
			_, err := authenticator(ring, false).Authenticate(t.Context(), Shown{Secret: key, From: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
			texts = append(texts, err.Error())
		}
		if len(slices.Compact(texts)) != 1 {
			t.Errorf("told apart: %q", texts)
		}
	})
}
