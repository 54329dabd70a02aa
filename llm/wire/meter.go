package wire

import (
	"context"
	"io"
)

// A Meter bounds the bytes of answers that are held at the same time. It
// belongs to one answer and is used by one goroutine at a time.
type Meter interface {
	// Hold counts more bytes, or fewer. Its error ends the answer.
	Hold(bytes int) error
}

type meterKey struct{}

// Metered has the bytes that are held while an answer is read counted.
func Metered(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// hold counts bytes, if anybody wants to know.
func hold(ctx context.Context, bytes int) error {
	if m, ok := ctx.Value(meterKey{}).(Meter); ok {
		return m.Hold(bytes)
	}
	return nil
}

// A meteredReader counts the bytes read of it as held until they are let go.
type meteredReader struct {
	r    io.Reader
	ctx  context.Context //nolint:containedctx // of the one exchange that the reader is for
	held int
}

func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.held += n
	if full := hold(r.ctx, n); full != nil {
		return n, full
	}
	return n, err
}

// letGo is told that the bytes read are not held any more.
func (r *meteredReader) letGo() {
	_ = hold(r.ctx, -r.held) // less always fits
	r.held = 0
}
