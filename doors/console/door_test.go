package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "default", Roles: []string{protocol.RoleOperator}, Method: protocol.MethodAPIKey, Credential: "k1"}

// Grants that a test can end.
type grants struct {
	grant.Unlimited
	mu    sync.Mutex
	gone  error
	hooks []func(error)
}

func (g *grants) Principal(of grant.Grant) (*protocol.Principal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return grant.Original(of), g.gone
}

func (g *grants) OnEnd(_ grant.Grant, f func(error)) func() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hooks = append(g.hooks, f)
	return func() bool { return true }
}

func (g *grants) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = errors.New("revoked")
	for _, f := range g.hooks {
		f(g.gone)
	}
}

func newDoor(t *testing.T) (*Door, *grants, *httptest.Server) {
	t.Helper()
	g := &grants{}
	d, err := New(Options{
		SignIn: func(_ *http.Request, secret string) (*protocol.Principal, error) {
			if secret != "good" {
				return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
			}
			return alice, nil
		},
		Grants: g,
		May:    func(context.Context, *protocol.Principal) []string { return []string{"agent:list"} },
		Files: fstest.MapFS{
			"index.html":     {Data: []byte("<!doctype html>\n" + baseMark + "\n")},
			"assets/core.js": {Data: []byte(strings.Repeat("let a;", 500))},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, handler := range d.Mounts() {
		mux.Handle(pattern, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return d, g, server
}

type answer struct {
	*http.Response
	body string
}

func ask(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp, string(text)}
}

func signIn(t *testing.T, server *httptest.Server, header ...string) *http.Cookie {
	t.Helper()
	got := ask(t, "POST", server.URL+"/session", `{"key":" good\n"}`, header...)
	if got.StatusCode != http.StatusOK || len(got.Cookies()) != 1 {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	return got.Cookies()[0]
}

func signedIn(t *testing.T, url string, cookie *http.Cookie, header ...string) bool {
	t.Helper()
	got := ask(t, "GET", url+"/session", "", append([]string{"Cookie", cookie.Name + "=" + cookie.Value}, header...)...)
	var view sessionView
	if err := json.Unmarshal([]byte(got.body), &view); err != nil {
		t.Fatal(err)
	}
	if view.SignedIn != (view.Principal != nil) || !view.SignedIn && (view.Bridge != nil || view.May != nil) {
		t.Errorf("who is not signed in learns %s", got.body)
	}
	return view.SignedIn
}

const same, name = "same-origin", "Sec-Fetch-Site"

func TestTheCookieIsForThePageAlone(t *testing.T) {
	t.Parallel()
	_, _, server := newDoor(t)
	cookie := signIn(t, server)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" || cookie.Secure {
		t.Errorf("the cookie is %v", cookie)
	}
	if over := signIn(t, server, "Origin", "https://bridge.example"); !over.Secure {
		t.Error("behind TLS the cookie goes over plain connections too")
	}
	for why, tt := range map[string]struct {
		header []string
		want   bool
	}{
		"the page":                        {[]string{name, same}, true},
		"another site":                    {[]string{name, "cross-site"}, false},
		"a neighbour":                     {[]string{name, "same-site"}, false},
		"an old browser, the page":        {[]string{"Origin", server.URL}, true},
		"an old browser, another port":    {[]string{"Origin", "http://127.0.0.1:1"}, false},
		"an old browser that tells none":  {nil, false},
		"a request with another key":      {[]string{name, same, "Authorization", "Bearer other"}, false},
		"a request with a key of its own": {[]string{name, same, "X-API-Key", "other"}, false},
	} {
		if got := signedIn(t, server.URL, cookie, tt.header...); got != tt.want {
			t.Errorf("%s is signed in: %v", why, got)
		}
	}
	two := ask(t, "GET", server.URL+"/session", "", name, same, "Cookie", cookie.Name+"="+cookie.Value+"; "+cookie.Name+"=planted")
	if strings.Contains(two.body, "alice") {
		t.Error("one of two cookies counts")
	}
}

func TestSigningInTakesAGoodCredential(t *testing.T) {
	t.Parallel()
	_, _, server := newDoor(t)
	for body, want := range map[string]int{`{"key":"bad"}`: 401, `{"key":""}`: 401, `{`: 400, `[]`: 400, `{"key":"` + strings.Repeat("a", maxSignIn) + `"}`: 413} {
		if got := ask(t, "POST", server.URL+"/session", body); got.StatusCode != want || len(got.Cookies()) != 0 {
			t.Errorf("%.20s: %d %s", body, got.StatusCode, got.body)
		}
	}
	if got := ask(t, "POST", server.URL+"/session", `{"key":"good"}`, "Content-Type", "text/plain"); got.StatusCode != 400 {
		t.Errorf("a form signs in: %d", got.StatusCode)
	}
}

func TestASessionEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	d, g, server := newDoor(t)
	cookie := signIn(t, server)
	if !signedIn(t, server.URL, cookie, name, same) {
		t.Fatal("nobody is signed in")
	}
	g.end()
	if signedIn(t, server.URL, cookie, name, same) || len(d.sessions.open) != 0 {
		t.Error("the session goes on")
	}
}

func TestSigningOutEndsTheSession(t *testing.T) {
	t.Parallel()
	_, _, server := newDoor(t)
	cookie := signIn(t, server)
	shown := cookie.Name + "=" + cookie.Value
	if got := ask(t, "DELETE", server.URL+"/session", "", "Cookie", shown, name, "cross-site"); got.StatusCode != 403 {
		t.Errorf("another site signs out: %d", got.StatusCode)
	}
	got := ask(t, "DELETE", server.URL+"/session", "", "Cookie", shown, name, same)
	if got.StatusCode != 200 || len(got.Cookies()) != 1 || got.Cookies()[0].MaxAge >= 0 {
		t.Errorf("%d %v", got.StatusCode, got.Cookies())
	}
	if signedIn(t, server.URL, cookie, name, same) {
		t.Error("the session goes on")
	}
}

func TestSessionsAreBoundedAndEnd(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newSessions(grant.Unlimited{}, func() time.Time { return now })
	first, _ := s.begin(alice)
	for range maxOwn {
		now = now.Add(time.Second)
		s.begin(alice)
	}
	if len(s.open) != maxOwn || s.find(first) != nil {
		t.Errorf("%d sessions of one party are open", len(s.open))
	}
	last, _ := s.begin(alice)
	now = now.Add(sessionLife)
	if s.find(last) != nil {
		t.Error("a session does not end")
	}
}

func TestThePageLeadsBackToItsRootAndAllowsNothing(t *testing.T) {
	t.Parallel()
	_, _, server := newDoor(t)
	for path, want := range map[string]string{"/": `<base href="./">`, "/agents": `<base href="./">`, "/agents/lamp-1": `<base href="../">`, "/caps/a/b": `<base href="../../">`} {
		got := ask(t, "GET", server.URL+path, "")
		if got.StatusCode != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
		csp := got.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'self';") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("the policy of %s is %q", path, csp)
		}
	}
	small := ask(t, "GET", server.URL+"/assets/core.js", "", "Accept-Encoding", "gzip")
	if small.Header.Get("Content-Encoding") != "gzip" || len(small.body) > 200 {
		t.Errorf("the script is sent in %d bytes", len(small.body))
	}
	if again := ask(t, "GET", server.URL+"/assets/core.js", "", "If-None-Match", small.Header.Get("Etag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("what is there already is sent again: %d", again.StatusCode)
	}
	if none := ask(t, "GET", server.URL+"/assets/none.js", ""); none.StatusCode != 404 {
		t.Errorf("%d", none.StatusCode)
	}
}
