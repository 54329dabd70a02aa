package http

import (
	"net/http"

	"github.com/aibridge/aibridge/protocol"
)

// Lobby answers for a bridge that does not serve yet: /healthz that it lives,
// everything else with status 503 and the reason, which is public.
func Lobby(version string, why func() string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeValue(w, map[string]string{"status": "ok", "version": version, "protocol": protocol.Version})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeErrorStatus(w, http.StatusServiceUnavailable, protocol.Errorf(protocol.StoreUnavailable, "%s", why()))
	})
	return mux
}
