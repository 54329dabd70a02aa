package wire

import (
	"context"
	"io"
)

// A Meter bounds the bytes of answers that are held in memory at the same time. It
// belongs to one answer and is used by one goroutine at a time.
type Meter interface {
	// Hold counts more bytes, or fewer. Its error ends the answer.
	Hold(bytes int) error
}

type meterKey struct{}

// Metered returns a context whose exchanges count the bytes of an answer that they
// hold.
func Metered(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// hold counts bytes at the meter of ctx, if there is one.
func hold(ctx context.Context, bytes int) error {
	if m, ok := ctx.Value(meterKey{}).(Meter); ok {
		return m.Hold(bytes)
	}
	return nil
}

// A meteredReader counts the bytes read from it as held, until letGo.
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

// letGo releases the bytes read so far.
func (r *meteredReader) letGo() {
	_ = hold(r.ctx, -r.held) // less always fits
	r.held = 0
}
