package security

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// SignIn authenticates a person who shows a secret on the console, an API key
// or a token, and perhaps a client certificate with it.
func (a *Authenticator) SignIn(r *http.Request, secret string) (*protocol.Principal, error) {
	s := Shown{Door: "http", From: remote(r), Certificate: peer(r), Secret: secret}
	if secret == "" {
		s.Kind = NoSecret
	}
	return a.Authenticate(r.Context(), s)
}

// Unprompted is the principal of a request that shows no secret: the holder of a client
// certificate, or the anonymous principal under --dev. A request without either
// does not count as a failed attempt.
func (a *Authenticator) Unprompted(r *http.Request) (*protocol.Principal, error) {
	return a.identify(r.Context(), Shown{Door: "http", From: remote(r), Certificate: peer(r)})
}

func remote(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr()
}

// A SignInPage is an issuer's page where people sign in to the console.
type SignInPage struct {
	*token.SignInPage
	authenticator *Authenticator
}

// SignInPage judges a sign-in at an issuer's page as it judges a credential shown
// to the bridge.
func (a *Authenticator) SignInPage(p *token.SignInPage) *SignInPage { return &SignInPage{p, a} }

// Redeem yields the principal that has signed in, from the request by which its browser
// comes back from the issuer.
func (p *SignInPage) Redeem(r *http.Request, nonce, verifier string) (*protocol.Principal, error) {
	a, shown := p.authenticator, Shown{Door: "http", From: remote(r)}
	who, err := p.SignInPage.Redeem(r.Context(), r.URL.Query(), nonce, verifier)
	if err == nil && a.options.Check != nil {
		err = a.options.Check(who)
	}
	if err != nil {
		who, err = nil, a.refuse(r.Context(), shown, err)
	}
	a.settled(context.WithoutCancel(r.Context()), shown, Attempt{Who: who, Err: err})
	return who, err
}
