package api

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aibridge/aibridge/protocol"
)

// health says that the process serves HTTP at all.
func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	writeValue(w, map[string]string{"status": "ok", "version": a.Version, "protocol": protocol.Version})
}

// ready says whether the node can do its work, with status 503 if not. The
// reason is only told where it is an error of the protocol, which is made to
// be told.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	var err error
	if a.Ready != nil {
		err = a.Ready(r.Context())
	}
	if err == nil {
		writeValue(w, map[string]string{"status": "ready"})
		return
	}
	var known *protocol.Error
	if !errors.As(err, &known) {
		a.Log.WarnContext(r.Context(), "not ready", "error", err)
		known = protocol.Wrap(protocol.TargetUnavailable, err, "not ready")
	}
	writeErrorStatus(w, http.StatusServiceUnavailable, known)
}

// metrics shows the metrics in the formats of Prometheus.
func (a *API) metrics() http.HandlerFunc {
	show := promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return func(w http.ResponseWriter, r *http.Request) {
		if !a.PublicMetrics {
			if _, no := a.principal(r); no != nil {
				writeErrorStatus(w, no.status, no.err)
				return
			}
		}
		boundWrite(w)
		show.ServeHTTP(w, r)
	}
}
