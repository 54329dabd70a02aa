package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/aibridge/aibridge/protocol"
)

// Paths of the HTTP door that MCP has.
const (
	Path = "/mcp"
	// MetadataPath is the path of the metadata with the issuers of tokens (RFC 9728).
	// It is also served at MetadataPath + Path.
	MetadataPath = "/.well-known/oauth-protected-resource"
)

// OAuth serves the metadata of the MCP endpoint (RFC 9728), by which clients find the
// issuers of credentials. It requires no authentication, since its clients have no
// credential yet.
type OAuth struct {
	URL     string   // public URL of the MCP endpoint; that of the request when empty
	Issuers []string // issuers of tokens by OAuth
}

// MetadataURL is the URL of the metadata for a client, "" without issuers.
func (o *OAuth) MetadataURL(r *http.Request) string {
	if len(o.Issuers) == 0 {
		return ""
	}
	return origin(r) + MetadataPath + Path
}

func (o *OAuth) resource(r *http.Request) string {
	if o.URL != "" {
		return o.URL
	}
	return origin(r) + Path
}

func origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// ServeHTTP implements [http.Handler].
func (o *OAuth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this path takes GET", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(map[string]any{
		"resource":                 o.resource(r),
		"authorization_servers":    o.Issuers,
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
