package console

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A fakeIssuer lets alice in who brings the code "good".
type fakeIssuer struct {
	console           string
	nonce, verifier   string // of who was sent last
	redeemed          int
	askFails, takesNo error
}

func (f *fakeIssuer) Issuer() string { return "https://id.example" }
func (f *fakeIssuer) Title() string  { return "Example" }

func (f *fakeIssuer) Console() *url.URL {
	u, err := url.Parse(f.console)
	if err != nil {
		panic(err)
	}
	return u
}

func (f *fakeIssuer) Ask(_ context.Context, state, nonce, verifier string) (string, error) {
	f.nonce, f.verifier = nonce, verifier
	return "https://id.example/authorize?state=" + state, f.askFails
}

func (f *fakeIssuer) Redeem(r *http.Request, nonce, verifier string) (*protocol.Principal, error) {
	f.redeemed++
	if f.takesNo != nil {
		return nil, f.takesNo
	}
	if r.URL.Query().Get("code") != "good" || nonce != f.nonce || verifier != f.verifier {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
	}
	return alice, nil
}

const began = "/session/oidc?issuer=https://id.example"

// newIssuerDoor is a door at console, which people sign in to at an issuer.
func newIssuerDoor(t *testing.T) (*Door, *fakeIssuer, *httptest.Server) {
	t.Helper()
	d, _, server := newDoor(t)
	f := &fakeIssuer{console: server.URL + "/"}
	d.Issuers = []Issuer{f}
	return d, f, server
}

// leave begins to sign in, and returns the cookie and the state.
func leave(t *testing.T, server *httptest.Server, more string) (cookie *http.Cookie, state string) {
	t.Helper()
	got := ask(t, "GET", server.URL+began+more, "")
	at, err := got.Location()
	if err != nil || got.StatusCode != http.StatusSeeOther || len(got.Cookies()) != 1 || at.Host != "id.example" {
		t.Fatalf("%d %v %v", got.StatusCode, at, err)
	}
	return got.Cookies()[0], at.Query().Get("state")
}

// arrive comes back from the issuer.
func arrive(t *testing.T, server *httptest.Server, cookie *http.Cookie, query string) answer {
	t.Helper()
	return ask(t, "GET", server.URL+"/session/oidc/callback?"+query, "", "Cookie", cookie.Name+"="+cookie.Value, name, "cross-site")
}

// openedBy is the cookie of a session that an answer opens, nil if it opens none.
func openedBy(got answer) *http.Cookie {
	for _, c := range got.Cookies() {
		if strings.Contains(c.Name, plainCookie) {
			return c
		}
	}
	return nil
}

func TestSigningInAtAnIssuerOpensASession(t *testing.T) {
	t.Parallel()
	d, f, server := newIssuerDoor(t)
	attempt, state := leave(t, server, "&to=agents/lamp-1?tab=x")
	if !attempt.HttpOnly || attempt.SameSite != http.SameSiteLaxMode || attempt.Path != "/session/oidc" || attempt.MaxAge != int(attemptLife/time.Second) {
		t.Errorf("the cookie of the attempt is %v", attempt)
	}
	for _, secret := range []string{f.verifier, f.nonce, state} {
		if len(secret) < 26 || strings.Contains(attempt.Value, secret) {
			t.Errorf("%q is short, or not sealed", secret)
		}
	}
	got := arrive(t, server, attempt, "code=good&state="+state)
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != server.URL+"/agents/lamp-1?tab=x" {
		t.Fatalf("%d %s", got.StatusCode, got.Header.Get("Location"))
	}
	cookie := openedBy(got)
	if cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure {
		t.Fatalf("the cookie of the session is %v", cookie)
	}
	if !signedIn(t, server.URL, cookie, name, same) {
		t.Error("nobody is signed in")
	}
	for _, c := range got.Cookies() {
		if c.Name == attemptCookie && (c.MaxAge >= 0 || c.Path != "/session/oidc") {
			t.Errorf("the attempt is not over: %v", c)
		}
	}
	if got := ask(t, "GET", server.URL+"/session", ""); !strings.Contains(got.body, `"issuers":[{"issuer":"https://id.example","title":"Example"}]`) {
		t.Errorf("the page is told %s", got.body)
	}
	if len(d.sessions.open) != 1 {
		t.Errorf("%d sessions are open", len(d.sessions.open))
	}
}

// hostOnlyForm reports whether browsers take a cookie from this host alone.
func hostOnlyForm(c *http.Cookie) bool {
	return c != nil && strings.HasPrefix(c.Name, "__Host-") && c.Secure && c.Path == "/" && c.Domain == ""
}

func TestBehindAProxyWithTLSCookiesAreOfTheHostAlone(t *testing.T) {
	t.Parallel()
	_, f, server := newIssuerDoor(t)
	f.console = strings.Replace(server.URL, "http://", "https://", 1) + "/bridge/"
	attempt, state := leave(t, server, "")
	if !hostOnlyForm(attempt) {
		t.Errorf("the cookie of the attempt is %v", attempt)
	}
	got := arrive(t, server, attempt, "code=good&state="+state)
	opened := openedBy(got)
	if !hostOnlyForm(opened) || !signedIn(t, server.URL, opened, name, same) {
		t.Fatalf("the cookie of the session is %v", opened)
	}
	if at := got.Header.Get("Location"); at != f.console {
		t.Errorf("it leads to %s", at)
	}
}

// TestAnotherHostOfTheDomainSignsNobodyIn plants what another host of the domain may:
// its own attempt and its own session, in cookies of any name but those of the host.
func TestAnotherHostOfTheDomainSignsNobodyIn(t *testing.T) {
	t.Parallel()
	_, f, server := newIssuerDoor(t)
	f.console = strings.Replace(server.URL, "http://", "https://", 1) + "/"
	attempt, state := leave(t, server, "")
	planted := *attempt
	planted.Name = attemptCookie
	if got := arrive(t, server, &planted, "code=good&state="+state); openedBy(got) != nil || f.redeemed != 0 {
		t.Errorf("a planted attempt was taken: %d %v", got.StatusCode, got.Cookies())
	}
	session := openedBy(arrive(t, server, attempt, "code=good&state="+state))
	if !signedIn(t, server.URL, session, name, same) {
		t.Fatal("the session does not count")
	}
	session.Name = plainCookie
	if signedIn(t, server.URL, session, name, same) {
		t.Error("a planted session counts")
	}
}

func TestConsolesInFoldersOfOneHostHaveCookiesOfTheirOwn(t *testing.T) {
	t.Parallel()
	d, f, _ := newIssuerDoor(t)
	names := make(map[string]bool)
	for _, folder := range []string{"/", "/one/", "/two/", "/two/deep/"} {
		f.console = "https://bridge.example" + folder
		names[d.cookieName(&http.Request{Host: "bridge.example"})] = true
		if got := d.cookieName(&http.Request{Host: "bridge.example:443"}); !names[got] {
			t.Errorf("with the port of https it is %s", got)
		}
		if got := d.cookieName(&http.Request{Host: "127.0.0.1:9010"}); got != plainCookie {
			t.Errorf("without TLS it is %s", got)
		}
		if got := d.cookieName(&http.Request{Host: "127.0.0.1:9010", TLS: new(tls.ConnectionState)}); got != "__Host-"+plainCookie {
			t.Errorf("over TLS to the bridge it is %s", got)
		}
	}
	if len(names) != 4 {
		t.Errorf("the names are %v", names)
	}
}

func TestNobodyGetsInWithTheSignInOfSomebodyElse(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct {
		come  func(t *testing.T, server *httptest.Server, f *fakeIssuer, cookie *http.Cookie, state string) answer
		asked bool // the issuer is
	}{
		"stale another state": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, cookie *http.Cookie, _ string) answer {
			return arrive(t, server, cookie, "code=good&state=other")
		}},
		"stale no state": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, cookie *http.Cookie, _ string) answer {
			return arrive(t, server, cookie, "code=good")
		}},
		"stale no cookie": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, _ *http.Cookie, state string) answer {
			return ask(t, "GET", server.URL+"/session/oidc/callback?code=good&state="+state, "")
		}},
		"stale another browser": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, _ *http.Cookie, state string) answer {
			other, _ := leave(t, server, "")
			return arrive(t, server, other, "code=good&state="+state)
		}},
		"stale two cookies": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, cookie *http.Cookie, state string) answer {
			return arrive(t, server, &http.Cookie{Name: attemptCookie, Value: cookie.Value + "; " + attemptCookie + "=planted"}, "code=good&state="+state)
		}},
		"stale changed": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, cookie *http.Cookie, state string) answer {
			return arrive(t, server, &http.Cookie{Name: attemptCookie, Value: "AAAA" + cookie.Value[4:]}, "code=good&state="+state)
		}},
		"refused by the person": {come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, cookie *http.Cookie, state string) answer {
			return arrive(t, server, cookie, "error=access_denied&error_description=%3Cscript%3E&state="+state)
		}},
		"refused code": {asked: true, come: func(t *testing.T, server *httptest.Server, _ *fakeIssuer, cookie *http.Cookie, state string) answer {
			return arrive(t, server, cookie, "code=bad&state="+state)
		}},
		"unreachable issuer": {asked: true, come: func(t *testing.T, server *httptest.Server, f *fakeIssuer, cookie *http.Cookie, state string) answer {
			f.takesNo = protocol.Errorf(protocol.TargetUnavailable, "away")
			return arrive(t, server, cookie, "code=good&state="+state)
		}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			d, f, server := newIssuerDoor(t)
			cookie, state := leave(t, server, "")
			got := tt.come(t, server, f, cookie, state)
			why, _, _ := strings.Cut(want, " ")
			if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != server.URL+"/?sign_in="+why {
				t.Errorf("%d %s", got.StatusCode, got.Header.Get("Location"))
			}
			if openedBy(got) != nil || len(d.sessions.open) != 0 {
				t.Error("a session is open")
			}
			if (f.redeemed > 0) != tt.asked {
				t.Errorf("the issuer was asked %d times", f.redeemed)
			}
		})
	}
}

func TestAnAttemptEnds(t *testing.T) {
	t.Parallel()
	d, _, server := newIssuerDoor(t)
	now := time.Now()
	d.Now = func() time.Time { return now }
	cookie, state := leave(t, server, "")
	now = now.Add(attemptLife)
	if got := arrive(t, server, cookie, "code=good&state="+state); openedBy(got) != nil {
		t.Error("an attempt counts that is over")
	}
}

func TestSigningInLeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	console, err := url.Parse("https://ops.example/bridge/")
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"":                            "https://ops.example/bridge/",
		"agents/lamp-1?tab=x":         "https://ops.example/bridge/agents/lamp-1?tab=x",
		"?first=0":                    "https://ops.example/bridge/?first=0",
		"https://evil.example/":       "https://ops.example/bridge/",
		"//evil.example/":             "https://ops.example/bridge/",
		"/elsewhere":                  "https://ops.example/bridge/",
		"../admin":                    "https://ops.example/bridge/",
		"a/../../admin":               "https://ops.example/bridge/",
		"\\\\evil.example":            "https://ops.example/bridge/",
		"javascript:alert(1)":         "https://ops.example/bridge/",
		"agents\r\nSet-Cookie: a=b":   "https://ops.example/bridge/",
		"agents/%2e%2e/%2e%2e/%2e%2e": "https://ops.example/bridge/",
	} {
		if got := below(console, to); got != want {
			t.Errorf("%q leads to %s", to, got)
		}
	}
}

func TestAnIssuerIsNamedAndKnown(t *testing.T) {
	t.Parallel()
	_, f, server := newIssuerDoor(t)
	if got := ask(t, "GET", server.URL+"/session/oidc?issuer=https://evil.example", ""); got.StatusCode != http.StatusNotFound || got.Header.Get("Location") != "" {
		t.Errorf("an issuer that is not configured: %d", got.StatusCode)
	}
	if got := ask(t, "GET", server.URL+began+"&to="+strings.Repeat("a", maxReturn+1), ""); got.StatusCode != http.StatusSeeOther || len(got.Header.Get("Set-Cookie")) > maxReturn {
		t.Errorf("a long address is kept: %d", got.StatusCode)
	}
	f.askFails = protocol.Errorf(protocol.TargetUnavailable, "away")
	if got := ask(t, "GET", server.URL+began, ""); got.Header.Get("Location") != server.URL+"/?sign_in=unreachable" || len(got.Cookies()) != 0 {
		t.Errorf("%s %v", got.Header.Get("Location"), got.Cookies())
	}
	f.askFails, f.console = nil, "https://ops.example/bridge/"
	if got := ask(t, "GET", server.URL+began, ""); got.Header.Get("Location") != "https://ops.example/bridge/?sign_in=elsewhere" {
		t.Errorf("by another name of the host it leads to %s", got.Header.Get("Location"))
	}
}
