package security

import (
	"net/http"
	"net/netip"

	"github.com/aibridge/aibridge/protocol"
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

// Unprompted is who a request comes from that shows no secret: the holder of a
// client certificate, or anybody under --dev. Nobody is no failed attempt.
func (a *Authenticator) Unprompted(r *http.Request) (*protocol.Principal, error) {
	return a.identify(r.Context(), Shown{Door: "http", From: remote(r), Certificate: peer(r)})
}

func remote(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr()
}
