package app

import (
	"net/http"

	"github.com/aibridge/aibridge/doors/console"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol"
)

// An authentication yields the principal of an HTTP request.
type authentication func(*http.Request) (*protocol.Principal, error)

// authenticateRequests knows the users of the console, and has the connection of a request take a place of its principal's
// from then on.
func authenticateRequests(d *domains, page *console.Door) authentication {
	return func(r *http.Request) (*protocol.Principal, error) {
		who := page.Recognise(r)
		if who == nil {
			var err error
			if who, err = d.identities.authenticator.Request(r); err != nil {
				return nil, err
			}
		}
		if err := gate.FromContext(r.Context()).Known(who); err != nil {
			return nil, err
		}
		return who, nil
	}
}
