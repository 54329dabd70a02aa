package app

import (
	"encoding/json"
	"net/http"

	"github.com/aibridge/aibridge/protocol"
)

// oauthIssuers are those whose tokens people get by OAuth.
func (a *App) oauthIssuers() []string {
	var urls []string
	for _, issuer := range a.config.Tokens.Issuers {
		if issuer.OIDC {
			urls = append(urls, issuer.Issuer)
		}
	}
	return urls
}

// mcpURL is where a client has found the MCP endpoint.
func (a *App) mcpURL(r *http.Request) string {
	if a.config.MCP.URL != "" {
		return a.config.MCP.URL
	}
	return origin(r) + mcpPath
}

func origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// mcpMetadataURL is where a client without a credential finds out who issues
// them, "" if nobody does.
func (a *App) mcpMetadataURL(r *http.Request) string {
	if len(a.oauthIssuers()) == 0 {
		return ""
	}
	return origin(r) + resourceMetadata + mcpPath
}

// serveMCPMetadata answers the OAuth metadata of the MCP endpoint (RFC 9728).
// It is for everybody: nobody who asks has a credential yet.
func (a *App) serveMCPMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this path takes GET", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(map[string]any{
		"resource":                 a.mcpURL(r),
		"authorization_servers":    a.oauthIssuers(),
		"bearer_methods_supported": []string{"header"},
		"resource_name":            "AI Bridge",
	})
	if err != nil {
		http.Error(w, protocol.Internal.String(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
