package token

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"

	"github.com/aibridge/aibridge/protocol"
)

// SignIn holds the settings of signing in to the console at an issuer, by OpenID Connect.
type SignIn struct {
	ClientID     string   `yaml:"client_id" doc:"id of the console as a client of the issuer; without one nobody signs in there"`
	ClientSecret string   `yaml:"client_secret" doc:"file with the client's secret; a public client has none"`
	Console      string   `yaml:"console" doc:"address of the console in people's browsers, ending in /; the issuer must know it with session/oidc/callback after it"`
	Scopes       []string `yaml:"scopes" doc:"scopes that are asked for besides openid; profile when empty"`
	Title        string   `yaml:"title" doc:"name of the issuer for people; its host when empty"`
}

// check reports faults of how people sign in at an issuer.
func (s *SignIn) check(i *Issuer) error {
	switch {
	case s.ClientID == "" && (s.ClientSecret != "" || s.Console != "" || len(s.Scopes) > 0 || s.Title != ""):
		return errors.New("sign_in needs client_id")
	case s.ClientID == "":
		return nil
	case !i.OIDC:
		return errors.New("sign_in needs oidc: true")
	case i.Kind != protocol.KindOperator:
		return errors.New("sign_in needs kind: operator, for it is people that sign in")
	}
	if err := checkURL(s.Console); err != nil {
		return fmt.Errorf("sign_in.console: %w", err)
	}
	if u, err := url.Parse(s.Console); err != nil || u.RawQuery != "" || !strings.HasSuffix(u.Path, "/") || strings.Contains(u.Path, "//") {
		return fmt.Errorf("sign_in.console: %q must end in / and have no query", s.Console)
	}
	return nil
}

const (
	callback   = "session/oidc/callback" // where issuers send browsers, below the console's address
	maxCode    = 4 << 10                 // bytes of an authorization code
	maxSignIns = 16                      // sign-ins for which requests to one issuer are under way at a time
)

// A SignInPage is the page of an issuer where people sign in: authorization code
// with PKCE (RFC 7636). The issuer's ID tokens are trusted as its other tokens are,
// except for the audience: an ID token is for the console alone.
type SignInPage struct {
	issuer   *trust
	verifier *Verifier
	console  *url.URL
	secret   string
	client   *http.Client
	parser   *jwt.Parser
	known    atomic.Pointer[endpoints]
	places   chan struct{} // of sign-ins with a request to the issuer under way
}

// endpoints are the addresses that discovery tells of an issuer.
type endpoints struct {
	oauth2.Endpoint
	names bool // the issuer names itself in its answers (RFC 9207)
}

// SignInPages are the pages of all issuers that have one, in the order of the
// configuration.
func (v *Verifier) SignInPages() ([]*SignInPage, error) {
	var pages []*SignInPage
	for _, configured := range v.options.Issuers {
		issuer := v.issuers[configured.Issuer]
		if issuer.SignIn.ClientID == "" {
			continue
		}
		page, err := v.signInPage(issuer)
		if err != nil {
			return nil, fmt.Errorf("issuer %q: sign_in: %w", issuer.Issuer.Issuer, err)
		}
		pages = append(pages, page)
	}
	return pages, nil
}

func (v *Verifier) signInPage(issuer *trust) (*SignInPage, error) {
	client, err := newHTTPClient(issuer.CA)
	if err != nil {
		return nil, err
	}
	console, err := url.Parse(issuer.SignIn.Console)
	if err != nil {
		return nil, err
	}
	p := &SignInPage{issuer: issuer, verifier: v, console: console, client: client, places: make(chan struct{}, maxSignIns)}
	p.parser = v.parser(jwt.WithValidMethods(issuer.Algorithms), jwt.WithIssuer(issuer.Issuer.Issuer), jwt.WithAudience(issuer.SignIn.ClientID))
	if file := issuer.SignIn.ClientSecret; file != "" {
		secret, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if p.secret = strings.TrimSpace(string(secret)); p.secret == "" {
			return nil, fmt.Errorf("%s is empty", file)
		}
	}
	return p, nil
}

// Issuer is the URL of the issuer.
func (p *SignInPage) Issuer() string { return p.issuer.Issuer.Issuer }

// Title is the name of the issuer for people.
func (p *SignInPage) Title() string {
	if p.issuer.SignIn.Title != "" {
		return p.issuer.SignIn.Title
	}
	u, err := url.Parse(p.Issuer())
	if err != nil {
		return p.Issuer()
	}
	return u.Host
}

// Console is the address of the console in people's browsers, ending in /.
func (p *SignInPage) Console() *url.URL {
	u := *p.console
	return &u
}

// Ask is the address to send a browser to. The issuer returns state, puts the nonce into
// the ID token, and gives that token only to the holder of the verifier.
func (p *SignInPage) Ask(ctx context.Context, state, nonce, verifier string) (string, error) {
	leave, err := p.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	at, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(at).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

// Redeem returns the principal that has signed in, from the issuer's answer with a code.
// Errors are those of [Verifier.Verify]: a code that the issuer does not take is
// [Invalid].
func (p *SignInPage) Redeem(ctx context.Context, answer url.Values, nonce, verifier string) (*protocol.Principal, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	at, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	if from := answer.Get("iss"); from != p.Issuer() && (from != "" || at.names) {
		return nil, invalid("the answer is another issuer's")
	}
	code := answer.Get("code")
	if code == "" || len(code) > maxCode {
		return nil, invalid("the issuer gave no code")
	}
	given, err := p.oauth(at).Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	if refusal := new(oauth2.RetrieveError); errors.As(err, &refusal) && refusal.Response.StatusCode < http.StatusInternalServerError {
		return nil, invalid("the issuer does not take the code: %s", refusal.ErrorCode)
	}
	if err != nil {
		p.known.Store(nil) // it may have moved
		return nil, p.unreachable(err)
	}
	raw, ok := given.Extra("id_token").(string)
	if !ok {
		return nil, invalid("the issuer gave no ID token")
	}
	return p.identify(ctx, raw, nonce)
}

// enter takes one of the places that there are for asking the issuer something.
func (p *SignInPage) enter() (leave func(), err error) {
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, nil
	default:
		return nil, protocol.Errorf(protocol.Busy, "too many people sign in at once")
	}
}

// identify verifies an ID token (OpenID Connect Core, section 3.1.3.7).
func (p *SignInPage) identify(ctx context.Context, raw, nonce string) (*protocol.Principal, error) {
	t, err := parse(raw)
	if err != nil {
		return nil, errInvalid{err}
	}
	if !slices.Contains(p.issuer.Algorithms, t.header.Algorithm) {
		return nil, invalid("its algorithm is not the issuer's")
	}
	keys, err := p.issuer.keys.find(ctx, t.header.Algorithm, t.header.KeyID)
	if err != nil {
		return nil, err
	}
	claims, expires, err := p.verifier.check(p.parser, raw, keys, p.issuer.MaxLifetime)
	if err != nil {
		return nil, err
	}
	if _, dated := claims["iat"]; !dated {
		return nil, invalid("it does not say when it was issued")
	}
	if told, _ := claims["nonce"].(string); subtle.ConstantTimeCompare([]byte(told), []byte(nonce)) != 1 {
		return nil, invalid("it was not issued for this sign-in")
	}
	party, named := claims["azp"]
	audience, err := claims.GetAudience()
	if err != nil || named && party != p.issuer.SignIn.ClientID || !named && len(audience) > 1 {
		return nil, invalid("it was issued to another client")
	}
	if _, bound := claims["cnf"]; bound {
		return nil, invalid("it is bound to what a browser cannot prove")
	}
	who, ok := p.issuer.principal(claims, raw, expires, p.verifier.reserved)
	if !ok {
		return nil, invalid("its claims name no principal")
	}
	return who, nil
}

// discover finds the address of an issuer's page by discovery, and remembers it.
func (p *SignInPage) discover(ctx context.Context) (*endpoints, error) {
	if at := p.known.Load(); at != nil {
		return at, nil
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer())
	if err != nil {
		return nil, p.unreachable(err)
	}
	var more struct {
		Names bool     `json:"authorization_response_iss_parameter_supported"`
		Shown []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, p.unreachable(err)
	}
	at := &endpoints{provider.Endpoint(), more.Names}
	for _, where := range []string{at.AuthURL, at.TokenURL} {
		if err := checkURL(where); err != nil {
			return nil, p.unreachable(err)
		}
	}
	at.AuthStyle = oauth2.AuthStyleInParams
	if p.secret != "" && (len(more.Shown) == 0 || slices.Contains(more.Shown, "client_secret_basic")) {
		at.AuthStyle = oauth2.AuthStyleInHeader
	}
	p.known.Store(at)
	return at, nil
}

func (p *SignInPage) unreachable(why error) error {
	p.verifier.options.Log.Warn("people cannot sign in at an issuer", "issuer", p.Issuer(), "error", why)
	return protocol.Errorf(protocol.TargetUnavailable, "the issuer does not answer at the moment")
}

func (p *SignInPage) oauth(at *endpoints) *oauth2.Config {
	s := p.issuer.SignIn
	scopes := s.Scopes
	if len(scopes) == 0 {
		scopes = []string{"profile"}
	}
	return &oauth2.Config{
		ClientID: s.ClientID, ClientSecret: p.secret, Endpoint: at.Endpoint, RedirectURL: p.console.String() + callback,
		Scopes: append([]string{oidc.ScopeOpenID}, scopes...),
	}
}
