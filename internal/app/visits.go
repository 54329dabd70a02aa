package app

import (
	"context"
	"net"
	"net/http"

	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol"
)

// openGate makes what counts the connections of all doors.
func (a *App) openGate() {
	l := a.config.Limits
	limits := gate.Limits{
		Connections: l.Connections, Strangers: l.Unauthenticated, PerAddress: l.UnauthenticatedPerAddress,
	}.Complete(gate.Descriptors())
	a.gate = gate.New(limits, a.clock, a.log)
	a.metrics.MustRegister(a.gate.Metrics()...)
	a.log.Debug("connections are limited", "most", limits.Connections, "unauthenticated", limits.Strangers, "unauthenticated_per_address", limits.PerAddress)
}

// countVisits has an HTTP server know by which connection a request came.
func countVisits(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return gate.WithConn(ctx, c) }
}

// authenticate is who sends a request. Its connection takes a place of theirs
// from then on.
func (a *App) authenticate(r *http.Request) (*protocol.Principal, error) {
	who, err := a.authenticator.Request(r)
	if err != nil {
		return nil, err
	}
	if err := gate.FromContext(r.Context()).Known(who); err != nil {
		return nil, err
	}
	return who, nil
}
