package http

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aibridge/aibridge/protocol"
)

// health answers that the process serves HTTP at all.
func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	writeValue(w, map[string]string{"status": "ok", "version": a.Version, "protocol": protocol.Version})
}

// ready answers whether the node can do its work, with status 503 if not. The
// reason is shown only if it is an error of the protocol, which clients may see.
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

// maxScrapes bounds the requests for metrics at a time.
const maxScrapes = 4

// metrics shows the metrics in the formats of Prometheus.
func (a *API) metrics() http.HandlerFunc {
	scrapes := make(chan struct{}, maxScrapes)
	return func(w http.ResponseWriter, r *http.Request) {
		who, no := a.principal(r)
		if no != nil {
			writeErrorStatus(w, no.status, no.err)
			return
		}
		shown, err := a.Metrics(r.Context(), who)
		if err != nil {
			writeError(w, protocol.AsError(err))
			return
		}
		select {
		case scrapes <- struct{}{}:
			defer func() { <-scrapes }()
		default:
			writeError(w, protocol.BusyFor(time.Second, "too many ask for metrics"))
			return
		}
		boundWrite(w)
		promhttp.HandlerFor(shown, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}
}
