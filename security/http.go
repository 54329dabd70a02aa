package security

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Request authenticates an HTTP request by its API key, shown as
// "Authorization: Bearer KEY" or "X-API-Key: KEY".
func (a *Authenticator) Request(r *http.Request) (*protocol.Principal, error) {
	key := r.Header.Get("X-API-Key")
	if authorization := r.Header.Get("Authorization"); key == "" && authorization != "" {
		scheme, token, _ := strings.Cut(authorization, " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
		}
		key = strings.TrimSpace(token)
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Key(r.Context(), key, from.Addr())
}
