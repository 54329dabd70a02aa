package security

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Request authenticates an HTTP request by its client certificate, and by an
// API key or a token in "Authorization: Bearer …" or a key in "X-API-Key: …".
// A credential that is given twice must be the same both times.
func (a *Authenticator) Request(r *http.Request) (*protocol.Principal, error) {
	s := Shown{Door: "http", From: remote(r), Certificate: peer(r)}
	secret, err := secretOf(r.Header)
	if s.Secret = secret; err != nil {
		s.Kind = NoSecret
	}
	return a.remember(r.Context(), s)
}

// Basic is [Authenticator.Request] for clients that show a user name and a
// password by HTTP Basic (RFC 7617) too, as those of MQTT do.
func (a *Authenticator) Basic(r *http.Request) (*protocol.Principal, error) {
	authorizations := r.Header.Values("Authorization")
	user, password, basic := r.BasicAuth()
	if len(authorizations) != 1 || !basic || len(r.Header.Values("X-Api-Key")) > 0 {
		return a.Request(r)
	}
	return a.Password(r.Context(), Shown{Door: "http", From: remote(r), Certificate: peer(r)}, user, []byte(password))
}

// Signed authenticates a request that is signed with the secret of an access key.
func (a *Authenticator) Signed(r *http.Request, access string, check func(secret string) bool) (*protocol.Principal, error) {
	return a.Authenticate(r.Context(), Shown{
		Door: "http", From: remote(r), Certificate: peer(r), Secret: access, Kind: AccessSecret, Signed: check,
	})
}

// Header authenticates the API key or the token in headers as HTTP has them, for
// another door. Headers without one count as showing the API key passed as
// otherwise, "" for none.
func (a *Authenticator) Header(ctx context.Context, door string, h http.Header, otherwise string) (*protocol.Principal, error) {
	s := Shown{Door: door}
	secret, err := secretOf(h)
	switch s.Secret = secret; {
	case err != nil:
		s.Kind = NoSecret
	case secret == "" && otherwise != "":
		s.Secret, s.Kind = otherwise, KeySecret
	}
	return a.Authenticate(ctx, s)
}

// peer is the certificate that the client showed and the handshake verified.
func peer(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.PeerCertificates[0]
}

var errHeader = errors.New("the credential is not shown as it should be")

// secretOf is the API key or the token in the headers, "" for none. It is strict:
// headers that two parsers could read differently are refused.
func secretOf(h http.Header) (string, error) {
	keys, authorizations := h.Values("X-Api-Key"), h.Values("Authorization")
	if len(keys) > 1 || len(authorizations) > 1 {
		return "", errHeader
	}
	var key, bearer string
	if len(keys) == 1 {
		key = keys[0]
		if !strings.HasPrefix(key, keyPrefix) {
			return "", errHeader
		}
	}
	if len(authorizations) == 1 {
		scheme, credential, _ := strings.Cut(authorizations[0], " ")
		bearer = strings.TrimLeft(credential, " ") // RFC 9110 allows more than one
		if !strings.EqualFold(scheme, "Bearer") || bearer == "" {
			return "", errHeader
		}
	}
	if key != "" && bearer != "" && key != bearer {
		return "", errHeader
	}
	secret := key + bearer
	if key == bearer {
		secret = key
	}
	if len(secret) > maxSecret || strings.ContainsFunc(secret, func(c rune) bool { return !tokenCharacter(c) }) {
		return "", errHeader
	}
	return secret, nil
}

// tokenCharacter reports whether a character belongs to a b64token of RFC 6750.
func tokenCharacter(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.ContainsRune("-._~+/=", c)
}
