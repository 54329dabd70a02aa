package tools

import (
	"context"

	"github.com/aibridge/aibridge/commands"
)

type askKey struct{}

// WithAsker has whoever made the calls under a context be asked meanwhile.
func WithAsker(ctx context.Context, a commands.Asker) context.Context {
	return context.WithValue(ctx, askKey{}, a)
}

// AskerOf asks whoever made the call of a context, nil if nobody can be asked.
func AskerOf(ctx context.Context) commands.Asker {
	a, _ := ctx.Value(askKey{}).(commands.Asker)
	return a
}
