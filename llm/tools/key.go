package tools

import "context"

type keyKey struct{}

// WithKey returns a context whose call of a tool has an idempotency key, of at most 64
// characters: an act on the world under that key happens once.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// KeyOf is the idempotency key of a call, "" for none.
func KeyOf(ctx context.Context) string {
	key, _ := ctx.Value(keyKey{}).(string)
	return key
}

type checkKey struct{}

// withCheck returns a context whose call of a tool has a check, see [CheckOf].
func withCheck(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// CheckOf is the check of the tool that is called under a context. The check returns an
// error if the tool must not be called any more, since it has changed or is gone. A
// tool that waits before it passes the call on checks again. CheckOf returns nil
// without a check.
func CheckOf(ctx context.Context) func() error {
	check, _ := ctx.Value(checkKey{}).(func() error)
	return check
}

type beforeRunKey struct{}

// BeforeRun returns a context whose calls of tools call f with the tool once they are
// admitted and about to run. An error of f prevents the run and is the call's result. F
// is called for every attempt and every nested call.
func BeforeRun(ctx context.Context, f func(*Tool) error) context.Context {
	return context.WithValue(ctx, beforeRunKey{}, f)
}

// beforeRun calls the function of [BeforeRun] in a context, if there is one.
func beforeRun(ctx context.Context, tool *Tool) error {
	if f, ok := ctx.Value(beforeRunKey{}).(func(*Tool) error); ok {
		return f(tool)
	}
	return nil
}
