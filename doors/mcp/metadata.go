package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/aibridge/aibridge/protocol"
)

// Paths of the HTTP door that MCP has.
const (
	Path = "/mcp"
	// MetadataPath is the path at which OAuth clients find out who issues tokens (RFC
	// 9728). The same is below it, at MetadataPath + Path.
	MetadataPath = "/.well-known/oauth-protected-resource"
)

// OAuth tells clients without a credential where they get one: it serves the
// metadata of the MCP endpoint (RFC 9728). It is for everybody: nobody who asks
// has a credential yet.
type OAuth struct {
	URL     string   // of the MCP endpoint as clients know it; as they call it when empty
	Issuers []string // whose tokens people get by OAuth
}

// MetadataURL is the address at which a client finds the metadata, "" if nobody issues
// tokens.
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
