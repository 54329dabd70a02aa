package http

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The limits of a server made by [NewServer].
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns an http.Server for handlers of this package and their
// neighbours: headers are bounded in time and size, idle connections end, and
// a panic becomes a 5000 and a line in the log. There is no ReadTimeout and no
// WriteTimeout, for a command may run for ten minutes; the handlers bound each
// read and each write themselves.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           recovered(handler, log),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// net/http itself logs broken connections, which any client may cause at any
		// rate.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func recovered(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			log.ErrorContext(r.Context(), "panic in an HTTP handler",
				"method", r.Method, "path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
			writeError(w, protocol.Errorf(protocol.Internal, "%s", protocol.Internal))
		}()
		next.ServeHTTP(w, r)
	})
}
