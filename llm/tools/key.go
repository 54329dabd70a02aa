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

type checkKey struct{}

// withCheck gives the call of a tool under a context what says why the tool is
// not to be called any more.
func withCheck(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// CheckOf is the check of the tool that is called under a context. It returns the reason
// why the tool may not be called any more: it has changed, or is gone. Who waits before
// it passes the call on asks once more. It is nil if nothing is known.
func CheckOf(ctx context.Context) func() error {
	check, _ := ctx.Value(checkKey{}).(func() error)
	return check
}

type beforeRunKey struct{}

// BeforeRun has f called with the tool when a call under a context was judged, and is
// about to be made. An error of f keeps it from being made, and is its result. A call that
// is repeated, or that calls others, has f called for each.
func BeforeRun(ctx context.Context, f func(*Tool) error) context.Context {
	return context.WithValue(ctx, beforeRunKey{}, f)
}

// beforeRun calls the function that a context has for the moment before a call.
func beforeRun(ctx context.Context, tool *Tool) error {
	if f, ok := ctx.Value(beforeRunKey{}).(func(*Tool) error); ok {
		return f(tool)
	}
	return nil
}
