package security

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// holders are certificates by their raw form, which is a name.
type holders map[string]*protocol.Principal

func (h holders) Identify(cert *x509.Certificate) (*protocol.Principal, error) {
	who, ok := h[string(cert.Raw)]
	if !ok {
		return nil, protocol.Errorf(protocol.CertificateRevoked, "revoked")
	}
	return who, nil
}

// tokens are verified by being listed.
type tokens map[string]*token.Token

func (k tokens) Verify(_ context.Context, raw string) (*token.Token, error) {
	if t, ok := k[raw]; ok {
		return t, nil
	}
	return nil, errors.New("forged")
}

func certificate(name string) *x509.Certificate { return &x509.Certificate{Raw: []byte(name)} }

// everyWay is an authenticator with certificates, tokens and keys of a lamp
// and a fan.
func everyWay(t *testing.T) (a *Authenticator, lampKey, fanKey string) {
	t.Helper()
	h := newKeyHouse(t)
	soon, later := h.clock.Add(time.Hour), h.clock.Add(24*time.Hour)
	agent := func(id string) *protocol.Principal { return &protocol.Principal{Kind: protocol.KindAgent, ID: id} }
	lamp, fan := agent("lamp"), agent("fan")
	lamp.CertSerial, lamp.Expires, fan.CertSerial = "00000000000000A1", later, "00000000000000A2"
	lampByToken := agent("lamp")
	lampByToken.Expires = soon
	bound := sha256.Sum256([]byte("lamp's"))
	a = NewAuthenticator(AuthenticatorOptions{
		Keys:         h.Ring,
		Certificates: holders{"lamp's": lamp, "fan's": fan},
		Tokens: tokens{
			"eyJ.lamp.x":  {Principal: lampByToken},
			"eyJ.fan.x":   {Principal: agent("fan")},
			"eyJ.bound.x": {Principal: agent("gardener"), Bound: true, Thumbprint: bound},
		},
	})
	return a, h.make(t, KeyCreateParams{Principal: "lamp"}).Secret, h.make(t, KeyCreateParams{Principal: "fan"}).Secret
}

func TestOnePartyShowsAllItsCredentials(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, lampKey, fanKey := everyWay(t)
		for name, test := range map[string]struct {
			cert, secret string
			id           string
			proven       bool
			want         protocol.Code
		}{
			"a certificate":                         {"lamp's", "", "lamp", true, ""},
			"a token":                               {"", "eyJ.lamp.x", "lamp", false, ""},
			"a key":                                 {"", lampKey, "lamp", false, ""},
			"a certificate and its token":           {"lamp's", "eyJ.lamp.x", "lamp", true, ""},
			"a certificate and its key":             {"lamp's", lampKey, "lamp", true, ""},
			"a certificate and another's token":     {"lamp's", "eyJ.fan.x", "", false, protocol.CredentialInvalid},
			"a certificate and another's key":       {"lamp's", fanKey, "", false, protocol.CredentialInvalid},
			"a certificate and a forged token":      {"lamp's", "eyJ.forged.x", "", false, protocol.CredentialInvalid},
			"a certificate and garbage":             {"lamp's", "garbage", "", false, protocol.CredentialInvalid},
			"a token bound to the certificate":      {"lamp's", "eyJ.bound.x", "gardener", true, ""},
			"a bound token without its certificate": {"", "eyJ.bound.x", "", false, protocol.ProofFailed},
			"a bound token, another's certificate":  {"fan's", "eyJ.bound.x", "", false, protocol.ProofFailed},
			"a certificate that was revoked":        {"old", "", "", false, protocol.CertificateRevoked},
			"a revoked certificate and a good key":  {"old", lampKey, "", false, protocol.CertificateRevoked},
			"nothing":                               {"", "", "", false, protocol.NotAuthenticated},
		} {
			s := Shown{Secret: test.secret}
			if test.cert != "" {
				s.Certificate = certificate(test.cert)
			}
			who, err := a.Authenticate(t.Context(), s)
			if got := protocol.CodeOf(err); got != test.want {
				t.Errorf("%s: %v", name, err)
			} else if err == nil && (who.ID != test.id || (who.CertSerial != "") != test.proven) {
				t.Errorf("%s: %+v", name, who)
			}
		}
		who, err := a.Authenticate(t.Context(), Shown{Certificate: certificate("lamp's"), Secret: "eyJ.lamp.x"})
		if err != nil || time.Until(who.Expires) > time.Hour {
			t.Errorf("of two credentials the longer one counts: %v, %v", who.Expires, err)
		}
	})
}

func TestHeadersThatCouldBeReadInTwoWaysAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, lampKey, fanKey := everyWay(t)
		for name, test := range map[string]struct {
			header http.Header
			want   protocol.Code
		}{
			"a bearer key":           {http.Header{"Authorization": {"Bearer " + lampKey}}, ""},
			"a bearer token":         {http.Header{"Authorization": {"Bearer eyJ.lamp.x"}}, ""},
			"the same key twice":     {http.Header{"Authorization": {"Bearer " + lampKey}, "X-Api-Key": {lampKey}}, ""},
			"two spaces":             {http.Header{"Authorization": {"Bearer  " + lampKey}}, ""},
			"two keys":               {http.Header{"Authorization": {"Bearer " + fanKey}, "X-Api-Key": {lampKey}}, protocol.CredentialInvalid},
			"a token and a key":      {http.Header{"Authorization": {"Bearer eyJ.lamp.x"}, "X-Api-Key": {lampKey}}, protocol.CredentialInvalid},
			"two Authorizations":     {http.Header{"Authorization": {"Bearer " + lampKey, "Bearer " + fanKey}}, protocol.CredentialInvalid},
			"one of them twice":      {http.Header{"Authorization": {"Bearer " + lampKey, "Bearer " + lampKey}}, protocol.CredentialInvalid},
			"two X-API-Keys":         {http.Header{"X-Api-Key": {lampKey, lampKey}}, protocol.CredentialInvalid},
			"an empty second":        {http.Header{"X-Api-Key": {lampKey, ""}}, protocol.CredentialInvalid},
			"a list":                 {http.Header{"Authorization": {"Bearer " + lampKey + ", Bearer " + fanKey}}, protocol.CredentialInvalid},
			"a list of keys":         {http.Header{"X-Api-Key": {lampKey + "," + fanKey}}, protocol.CredentialInvalid},
			"something after":        {http.Header{"Authorization": {"Bearer " + lampKey + " x"}}, protocol.CredentialInvalid},
			"a tab":                  {http.Header{"Authorization": {"Bearer\t" + lampKey}}, protocol.CredentialInvalid},
			"quotes":                 {http.Header{"Authorization": {`Bearer "` + lampKey + `"`}}, protocol.CredentialInvalid},
			"white space after":      {http.Header{"Authorization": {"Bearer " + lampKey + " "}}, protocol.CredentialInvalid},
			"no scheme":              {http.Header{"Authorization": {lampKey}}, protocol.CredentialInvalid},
			"another scheme":         {http.Header{"Authorization": {"Token " + lampKey}}, protocol.CredentialInvalid},
			"basic":                  {http.Header{"Authorization": {"Basic " + lampKey}}, protocol.CredentialInvalid},
			"empty":                  {http.Header{"Authorization": {""}}, protocol.CredentialInvalid},
			"an empty X-API-Key":     {http.Header{"X-Api-Key": {""}}, protocol.CredentialInvalid},
			"a token as X-API-Key":   {http.Header{"X-Api-Key": {"eyJ.lamp.x"}}, protocol.CredentialInvalid},
			"very long":              {http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 1<<20)}}, protocol.CredentialInvalid},
			"a bad one hides a good": {http.Header{"Authorization": {"Basic x"}, "X-Api-Key": {lampKey}}, protocol.CredentialInvalid},
		} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header = test.header
			a, lamp, fan := everyWay(t) // keys differ, and no failures are remembered
			for _, values := range r.Header {
				for i := range values {
					values[i] = strings.NewReplacer(lampKey, lamp, fanKey, fan).Replace(values[i])
				}
			}
			who, err := a.Request(r)
			if got := protocol.CodeOf(err); got != test.want || err == nil && who.ID != "lamp" {
				t.Errorf("%s: %v, %v", name, who, err)
			}
		}
	})
}

func TestTheClientCertificateOfARequestCountsOnlyIfItWasVerified(t *testing.T) {
	a, _, _ := everyWay(t)
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate("lamp's")}}
	if _, err := a.Request(r); protocol.CodeOf(err) != protocol.NotAuthenticated {
		t.Errorf("not verified: %v", err)
	}
	r.TLS.VerifiedChains = [][]*x509.Certificate{r.TLS.PeerCertificates}
	if who, err := a.Request(r); err != nil || who.ID != "lamp" {
		t.Errorf("verified: %v, %v", who, err)
	}
}

func TestWhatThePasswordIsShowsInTheUserNameOrItsForm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, lampKey, _ := everyWay(t)
		for name, test := range map[string]struct {
			user, password string
			want           protocol.Code
		}{
			"a key":                  {"apikey", lampKey, ""},
			"a token":                {"jwt", "eyJ.lamp.x", ""},
			"a key, some user":       {"lamp", lampKey, ""},
			"a token, some user":     {"lamp", "eyJ.lamp.x", ""},
			"a key, no user":         {"", lampKey, ""},
			"a key said to be token": {"jwt", lampKey, protocol.CredentialInvalid},
			"a token said to be key": {"apikey", "eyJ.lamp.x", protocol.CredentialInvalid},
			"a password":             {"lamp", "secret", protocol.CredentialInvalid},
			"a user":                 {"lamp", "", protocol.NotAuthenticated},
			"apikey without":         {"apikey", "", protocol.NotAuthenticated},
			"jwt without":            {"jwt", "", protocol.NotAuthenticated},
		} {
			if _, err := a.Password(t.Context(), Shown{}, test.user, []byte(test.password)); protocol.CodeOf(err) != test.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if who, err := a.Password(t.Context(), Shown{Certificate: certificate("lamp's")}, "whoever", nil); err != nil || who.ID != "lamp" {
			t.Errorf("a certificate and a user name: %v, %v", who, err)
		}
		if _, err := a.Password(t.Context(), Shown{Certificate: certificate("lamp's")}, "whoever", []byte("secret")); protocol.CodeOf(err) != protocol.CredentialInvalid {
			t.Errorf("a certificate and a password: %v", err)
		}
	})
}

func TestAStrangerFromEverywhereDoesNotLockOutWhoseNameItUses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, lampKey, _ := everyWay(t)
		id, _, _ := parseKey(lampKey)
		_, other, _ := newKey()
		wrong := "abk_" + id + "." + other
		limited := 0
		for i := range 3 * freeFailures { // each from an address of its own
			from := netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})
			_, err := a.Authenticate(t.Context(), Shown{Secret: wrong, Client: fmt.Sprint("client-", i), From: from})
			if protocol.CodeOf(err) == protocol.RateLimited {
				limited++
			}
		}
		if limited != 2*freeFailures {
			t.Errorf("%d attempts at one key were told to wait", limited)
		}
		if _, err := a.Authenticate(t.Context(), Shown{Secret: lampKey, Client: "lamp", From: netip.MustParseAddr("192.0.2.7")}); err != nil {
			t.Errorf("its holder: %v", err)
		}
	})
}

func TestEveryAttemptIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, lampKey, _ := everyWay(t)
		var told []Attempt
		a.options.Settled = func(_ context.Context, at Attempt) { told = append(told, at) }
		_, _ = a.Authenticate(t.Context(), Shown{Secret: lampKey, Client: "lamp", Door: "mqtt"})
		_, _ = a.Authenticate(t.Context(), Shown{Secret: "abk_wrong", Door: "http"})
		if len(told) != 2 || told[0].Who.ID != "lamp" || told[0].Err != nil || told[1].Who != nil || told[1].Err == nil {
			t.Errorf("%+v", told)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	_, _, key := newKey()
	f.Add("Bearer "+key, key)
	f.Add("Basic x", "")
	f.Add("Bearer a,b", "abk_")
	f.Fuzz(func(t *testing.T, authorization, key string) {
		secret, err := secretOf(http.Header{"Authorization": {authorization}, "X-Api-Key": {key}})
		if err == nil && (secret != key || !strings.HasSuffix(authorization, key)) {
			t.Errorf("%q and %q are %q", authorization, key, secret)
		}
	})
}
