package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/protocol"
)

const (
	consoleAt = "https://ops.example/bridge/"
	clientID  = "console"
)

// A loginServer is an issuer where people sign in: it gives one code, for one
// challenge, and an ID token for it.
type loginServer struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	challenge string
	nonce     string
	secret    string                  // of the client, "" for a public one
	claims    func(jwt.MapClaims)     // changes the ID token
	sign      func(jwt.Claims) string // makes it
	says      map[string]any          // of itself, besides
	status    int                     // of the token endpoint, 0 for its own
}

func newLoginServer(t *testing.T) *loginServer {
	t.Helper()
	s := &loginServer{t: t}
	s.sign = func(c jwt.Claims) string { return sign(t, jwt.SigningMethodRS256, rsaKey(), c, "kid", "r") }
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", s.serveConfiguration)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(keySetOf(t, jwk(t, "r", rsaKey().Public())))
	})
	mux.HandleFunc("/token", s.serveToken)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *loginServer) serveConfiguration(w http.ResponseWriter, _ *http.Request) {
	says := map[string]any{
		"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"id_token_signing_alg_values_supported": []string{"RS256"},
	}
	for name, value := range s.says {
		says[name] = value
	}
	_ = json.NewEncoder(w).Encode(says)
}

func (s *loginServer) serveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	id, secret, basic := r.BasicAuth()
	if basic { // RFC 6749, section 2.3.1
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case s.status != 0:
		w.WriteHeader(s.status)
	case r.FormValue("code") != "good", r.FormValue("grant_type") != "authorization_code", r.FormValue("redirect_uri") != consoleAt+callback,
		id != clientID, secret != s.secret, base64.RawURLEncoding.EncodeToString(sum[:]) != s.challenge:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
	default:
		claims := good(with("iss", s.URL), with("sub", "alice"), with("aud", clientID), with("nonce", s.nonce))
		if s.claims != nil {
			s.claims(claims)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": s.sign(claims)})
	}
}

// come has somebody sign in, and returns the answer that their browser brings.
func (s *loginServer) come(at string) url.Values {
	s.t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		s.t.Fatal(err)
	}
	asked := u.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": clientID, "redirect_uri": consoleAt + callback, "code_challenge_method": "S256"} {
		if asked.Get(name) != want {
			s.t.Errorf("%s is %q", name, asked.Get(name))
		}
	}
	if scopes := strings.Fields(asked.Get("scope")); len(scopes) == 0 || scopes[0] != "openid" {
		s.t.Errorf("scope is %q", asked.Get("scope"))
	}
	if at, _, _ := strings.Cut(at, "?"); at != s.URL+"/authorize" {
		s.t.Errorf("the browser is sent to %s", at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge, s.nonce = asked.Get("code_challenge"), asked.Get("nonce")
	return url.Values{"code": {"good"}, "state": {asked.Get("state")}}
}

func (s *loginServer) page(change func(*Issuer)) *SignInPage {
	s.t.Helper()
	i := Issuer{
		Issuer: s.URL, OIDC: true, Kind: protocol.KindOperator, IDPrefix: "staff.", DefaultRoles: []string{protocol.RoleOperator},
		SignIn: SignIn{ClientID: clientID, Console: consoleAt},
	}
	if change != nil {
		change(&i)
	}
	pages, err := verifier(s.t, i).SignInPages()
	if err != nil || len(pages) != 1 {
		s.t.Fatalf("%v %v", pages, err)
	}
	return pages[0]
}

const codeVerifier = "a-verifier-of-forty-three-characters-or-more"

func TestSomebodySignsInAtAnIssuer(t *testing.T) {
	s := newLoginServer(t)
	p := s.page(nil)
	at, err := p.Ask(t.Context(), "state", "nonce", codeVerifier)
	if err != nil {
		t.Fatal(err)
	}
	who, err := p.Redeem(t.Context(), s.come(at), "nonce", codeVerifier)
	if err != nil {
		t.Fatal(err)
	}
	if who.ID != "staff.alice" || who.Kind != protocol.KindOperator || who.Method != protocol.MethodToken || who.Expires.IsZero() || !who.HasRole(protocol.RoleOperator) {
		t.Errorf("%+v has signed in", who)
	}
	if p.Title() == "" || strings.Contains(p.Title(), "/") {
		t.Errorf("the issuer is called %q", p.Title())
	}
}

func TestAClientShowsItsSecretAsTheIssuerWants(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		s := newLoginServer(t)
		s.secret, s.says = "very secret", map[string]any{"token_endpoint_auth_methods_supported": []string{method}}
		p := s.page(func(i *Issuer) { i.SignIn.ClientSecret = file(t, []byte(s.secret+"\n")) })
		at, err := p.Ask(t.Context(), "state", "nonce", codeVerifier)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(at, "secret") {
			t.Errorf("the address has the secret: %s", at)
		}
		if _, err := p.Redeem(t.Context(), s.come(at), "nonce", codeVerifier); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestWhatAnIssuerSaysOfSomebodyIsChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		server func(*loginServer)
		answer func(url.Values)
		nonce  string
		proof  string
	}{
		"another nonce":             {nonce: "other"},
		"no nonce":                  {server: func(s *loginServer) { s.claims = func(c jwt.MapClaims) { delete(c, "nonce") } }},
		"another verifier":          {proof: codeVerifier + "x"},
		"another code":              {answer: func(v url.Values) { v.Set("code", "bad") }},
		"no code":                   {answer: func(v url.Values) { v.Del("code") }},
		"a code without end":        {answer: func(v url.Values) { v.Set("code", strings.Repeat("x", maxCode+1)) }},
		"another issuer's answer":   {answer: func(v url.Values) { v.Set("iss", "https://evil.example") }},
		"an answer of nobody":       {server: func(s *loginServer) { s.says = map[string]any{"authorization_response_iss_parameter_supported": true} }},
		"for another client":        {server: func(s *loginServer) { s.claims = with("aud", "other") }},
		"for the bridge":            {server: func(s *loginServer) { s.claims = with("aud", bridge) }},
		"for two":                   {server: func(s *loginServer) { s.claims = with("aud", []string{clientID, "other"}) }},
		"to another party":          {server: func(s *loginServer) { s.claims = with("azp", "other") }},
		"of another issuer":         {server: func(s *loginServer) { s.claims = with("iss", "https://evil.example") }},
		"expired":                   {server: func(s *loginServer) { s.claims = with("exp", 1) }},
		"without a time of issue":   {server: func(s *loginServer) { s.claims = without("iat") }},
		"bound":                     {server: func(s *loginServer) { s.claims = with("cnf", map[string]any{"jkt": "x"}) }},
		"with a name of two levels": {server: func(s *loginServer) { s.claims = with("sub", "a/b") }},
		"not signed": {server: func(s *loginServer) {
			s.sign = func(c jwt.Claims) string { return sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, c) }
		}},
		"signed with another key": {server: func(s *loginServer) {
			s.sign = func(c jwt.Claims) string { return sign(t, jwt.SigningMethodES256, newEC(), c, "kid", "r") }
		}},
		"signed by the public key": {server: func(s *loginServer) {
			s.sign = func(c jwt.Claims) string {
				return sign(t, jwt.SigningMethodHS256, publicPEM(t, rsaKey().Public()), c, "kid", "r")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLoginServer(t)
			if tt.server != nil {
				tt.server(s)
			}
			p := s.page(nil)
			at, err := p.Ask(t.Context(), "state", "nonce", codeVerifier)
			if err != nil {
				t.Fatal(err)
			}
			answer := s.come(at)
			if tt.answer != nil {
				tt.answer(answer)
			}
			nonce, verifier := "nonce", codeVerifier
			if tt.nonce != "" {
				nonce = tt.nonce
			}
			if tt.proof != "" {
				verifier = tt.proof
			}
			if who, err := p.Redeem(t.Context(), answer, nonce, verifier); who != nil || !Invalid(err) {
				t.Errorf("%v %v", who, err)
			}
		})
	}
}

func TestAnIssuerThatFailsIsNobodysFault(t *testing.T) {
	s := newLoginServer(t)
	p := s.page(nil)
	at, err := p.Ask(t.Context(), "state", "nonce", codeVerifier)
	if err != nil {
		t.Fatal(err)
	}
	answer := s.come(at)
	s.mu.Lock()
	s.status = http.StatusBadGateway
	s.mu.Unlock()
	if _, err := p.Redeem(t.Context(), answer, "nonce", codeVerifier); protocol.AsError(err).Code != protocol.TargetUnavailable {
		t.Error(err)
	}
	for range maxSignIns {
		p.places <- struct{}{}
	}
	if _, err := p.Redeem(t.Context(), answer, "nonce", codeVerifier); protocol.AsError(err).Code != protocol.Busy {
		t.Error(err)
	}
	for name, says := range map[string]map[string]any{
		"in the clear":   {"authorization_endpoint": "http://id.example/authorize"},
		"another issuer": {"issuer": "https://evil.example"},
	} {
		s := newLoginServer(t)
		s.says = says
		if at, err := s.page(nil).Ask(t.Context(), "state", "nonce", codeVerifier); protocol.AsError(err).Code != protocol.TargetUnavailable {
			t.Errorf("%s: %s %v", name, at, err)
		}
	}
}

func TestFaultsOfSignInsAreFoundAtTheStart(t *testing.T) {
	good := Issuer{Issuer: "https://id.example", OIDC: true, Kind: protocol.KindOperator, SignIn: SignIn{ClientID: clientID, Console: consoleAt}}
	for want, change := range map[string]func(*Issuer){
		"needs oidc":     func(i *Issuer) { i.OIDC, i.JWKS = false, "https://id.example/keys" },
		"kind: operator": func(i *Issuer) { i.Kind = protocol.KindAgent },
		"client_id":      func(i *Issuer) { i.SignIn.ClientID = "" },
		"must begin":     func(i *Issuer) { i.SignIn.Console = "http://ops.example/" },
		"end in /":       func(i *Issuer) { i.SignIn.Console = "https://ops.example/bridge" },
		"no query":       func(i *Issuer) { i.SignIn.Console = "https://ops.example/?x=/" },
	} {
		i := good
		change(&i)
		if _, err := New(Options{BridgeID: bridge, Issuers: []Issuer{i}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for name, path := range map[string]string{"missing": file(t, nil) + ".none", "empty": file(t, []byte("\n"))} {
		i := good
		i.SignIn.ClientSecret = path
		if _, err := verifier(t, i).SignInPages(); err == nil {
			t.Errorf("a secret in a file that is %s is taken", name)
		}
	}
}
