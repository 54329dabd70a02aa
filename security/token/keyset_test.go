package token

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// A keyServer is an issuer's web server.
type keyServer struct {
	*httptest.Server
	content atomic.Pointer[[]byte]
	asked   atomic.Int32
}

func newKeyServer(t *testing.T, tls bool) *keyServer {
	t.Helper()
	s := &keyServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		if content := s.content.Load(); content != nil {
			_, _ = w.Write(*content)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys",
			"authorization_endpoint": s.URL, "token_endpoint": s.URL, "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	if s.Server = httptest.NewUnstartedServer(mux); tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) serve(content []byte) { s.content.Store(&content) }

func TestKeysAreFetchedWhenTheyAreNeededAndKept(t *testing.T) {
	ed := newEd(t)
	s := newKeyServer(t, false)
	s.serve(keySetOf(t, jwk(t, "a", ed.Public())))
	v := verifier(t, Issuer{Issuer: "issuer", JWKS: s.URL + "/keys"})
	for range 3 {
		if _, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodEdDSA, ed, good(), "kid", "a")); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestARotatedKeyIsFetchedOnceItIsUsed(t *testing.T) {
	old, next := newEd(t), newEd(t)
	s := newKeyServer(t, false)
	s.serve(keySetOf(t, jwk(t, "old", old.Public())))
	now := time.Now()
	v, err := New(Options{BridgeID: bridge, Issuers: []Issuer{{Issuer: "issuer", JWKS: s.URL + "/keys"}}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(k any, id string) error {
		_, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodEdDSA, k, good(), "kid", id))
		return err
	}
	if err := verify(old, "old"); err != nil {
		t.Fatal(err)
	}
	s.serve(keySetOf(t, jwk(t, "next", next.Public())))
	for range 5 { // a stranger makes up key ids
		if err := verify(next, "made up"); !Invalid(err) {
			t.Errorf("an unknown key: %v", err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times within %v", n, refreshSoon)
	}
	now = now.Add(refreshSoon)
	if err := verify(next, "next"); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if err := verify(old, "old"); !Invalid(err) {
		t.Errorf("the old key, which was withdrawn: %v", err)
	}
	if n := s.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestKeysOutliveAnOutageButNotForever(t *testing.T) {
	ed := newEd(t)
	s := newKeyServer(t, false)
	s.serve(keySetOf(t, jwk(t, "a", ed.Public())))
	now := time.Now()
	v, err := New(Options{BridgeID: bridge, Issuers: []Issuer{{Issuer: "issuer", JWKS: s.URL + "/keys"}}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		_, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodEdDSA, ed, good(with("iat", now.Unix()), with("exp", now.Add(time.Hour).Unix())), "kid", "a"))
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	s.content.Store(nil)
	now = now.Add(keepKeys)
	v.issuers["issuer"].keys.refresh(t.Context(), 0)
	if err := verify(); err != nil {
		t.Errorf("during an outage: %v", err)
	}
	now = now.Add(time.Second)
	if err := verify(); protocol.CodeOf(err) != protocol.TargetUnavailable {
		t.Errorf("after a day: %v", err)
	}
}

func TestKeysThatCannotBeHadAreNotTheTokensFault(t *testing.T) {
	ed := newEd(t)
	s := newKeyServer(t, false)
	for name, content := range map[string][]byte{
		"nothing": nil, "no JSON": []byte("<html>"), "no keys": []byte(`{"keys":[]}`),
		"too much":      append(keySetOf(t, jwk(t, "a", ed.Public())), make([]byte, maxKeySet)...),
		"too many keys": []byte(`{"keys":[` + strings.Repeat(`{},`, maxKeys) + `{}]}`),
	} {
		if s.content.Store(nil); content != nil {
			s.serve(content)
		}
		v := verifier(t, Issuer{Issuer: "issuer", JWKS: s.URL + "/keys"})
		if _, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodEdDSA, ed, good())); Invalid(err) || protocol.CodeOf(err) != protocol.TargetUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.serve(keySetOf(t, jwk(t, "a", ed.Public())))
	v := verifier(t, Issuer{Issuer: "issuer", JWKS: s.URL + "/elsewhere"})
	if _, err := v.Verify(t.Context(), sign(t, jwt.SigningMethodEdDSA, ed, good())); protocol.CodeOf(err) != protocol.TargetUnavailable {
		t.Errorf("a redirect is followed: %v", err)
	}
}

func TestAnOpenIDConnectIssuerIsDiscovered(t *testing.T) {
	s := newKeyServer(t, true)
	s.serve(keySetOf(t, jwk(t, "r", &rsaKey().PublicKey)))
	ca := file(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	token := sign(t, jwt.SigningMethodRS256, rsaKey(), good(with("iss", s.URL)), "kid", "r")
	got, err := verifier(t, Issuer{Issuer: s.URL, OIDC: true, CA: ca, Algorithms: []string{RS256}}).Verify(t.Context(), token)
	if err != nil || got.Principal.ID != "lamp-1" || got.Principal.Attributes["issuer"] != s.URL {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := verifier(t, Issuer{Issuer: s.URL, OIDC: true}).Verify(t.Context(), token); protocol.CodeOf(err) != protocol.TargetUnavailable {
		t.Errorf("a server whose certificate nobody vouches for: %v", err)
	}
	public := publicPEM(t, &rsaKey().PublicKey)
	confused := sign(t, jwt.SigningMethodHS256, public, good(with("iss", s.URL)), "kid", "r")
	if _, err := verifier(t, Issuer{Issuer: s.URL, OIDC: true, CA: ca}).Verify(t.Context(), confused); !Invalid(err) {
		t.Errorf("signed with the public key as a secret: %v", err)
	}
}

func TestKeysAreFollowedInTheBackground(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var fetched atomic.Int32
		fail := atomic.Bool{}
		s := &keySet{name: "issuer", log: quiet(), now: time.Now}
		s.fetch = fetcher(func() ([]key, error) {
			fetched.Add(1)
			if fail.Load() {
				return nil, errForm
			}
			return []key{{algorithm: EdDSA}}, nil
		})
		ctx, cancel := contextWithCancel(t)
		go s.follow(ctx)
		synctest.Wait()
		fail.Store(true)
		time.Sleep(refreshEvery + time.Second)
		if n := fetched.Load(); n != 2 {
			t.Errorf("fetched %d times", n)
		}
		time.Sleep(3 * refreshSoon)
		if n := fetched.Load(); n != 5 {
			t.Errorf("fetched %d times, trying again after a failure", n)
		}
		if found, current := s.look(EdDSA, ""); len(found) != 1 || !current {
			t.Error("a failure drops the keys")
		}
		cancel()
		synctest.Wait()
	})
}
