package tools

import "context"

// Progress is how far a call is, as whoever does the work tells it.
type Progress struct {
	Percent float64 // 0 to 100, 0 if it is not known
	Message string
}

type progressKey struct{}

// WithProgress has the calls under a context tell how far they are. The
// function is called by one goroutine at a time and must not block for long.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// TellProgress tells how far the call of a context is, if anybody wants to
// know.
func TellProgress(ctx context.Context, p Progress) {
	if tell, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		tell(p)
	}
}

// WantsProgress reports whether anybody wants to know how far the call of a
// context is.
func WantsProgress(ctx context.Context) bool { return ctx.Value(progressKey{}) != nil }
