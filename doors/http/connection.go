package http

import (
	"context"

	"github.com/aibridge/aibridge/commands"
)

// A connection is the memory of an HTTP connection: the forms of its calls (decision 12).
type connection struct{ plans commands.Plans }

type connectionKey struct{}

// WithConnection is a context for the requests of one connection: see http.Server's
// ConnContext. Requests without it are served without a memory.
func WithConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, new(connection))
}

// plansOf are the plans of the connection that a request came by, nil if there are
// none.
func plansOf(ctx context.Context) *commands.Plans {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		return &c.plans
	}
	return nil
}
