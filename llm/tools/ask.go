package tools

import (
	"context"

	"github.com/aibridge/aibridge/commands"
)

type askKey struct{}

// WithAsker returns a context whose calls of tools can ask their caller for input by an
// asker.
func WithAsker(ctx context.Context, a commands.Asker) context.Context {
	return context.WithValue(ctx, askKey{}, a)
}

// AskerOf returns the asker of a call's context, nil if its caller cannot be asked.
func AskerOf(ctx context.Context) commands.Asker {
	a, _ := ctx.Value(askKey{}).(commands.Asker)
	return a
}
