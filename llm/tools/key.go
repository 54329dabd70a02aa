package tools

import "context"

type keyKey struct{}

// WithKey gives the call of a tool under a context an idempotency key: what
// acts on the world for it is known by the key, and is done once. It has at
// most 64 characters.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// KeyOf is the idempotency key of a call, "" for none.
func KeyOf(ctx context.Context) string {
	key, _ := ctx.Value(keyKey{}).(string)
	return key
}
