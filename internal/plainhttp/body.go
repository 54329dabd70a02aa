package plainhttp

import (
	"context"
	"errors"
	"io"
	"sync"
)

// A body is that of an answer. Its end gives the connection back to the transport; closed
// before, it closes the connection.
type body struct {
	t    *Transport
	line *line
	stop func() bool     // of the watch on the context
	ctx  context.Context //nolint:containedctx // of the exchange, which ends with it
	from io.Reader

	again bool // the connection may be used for another exchange

	mu   sync.Mutex
	over error // of reads after the end; nil before
}

var errClosed = errors.New("read of the body of an answer after it was closed")

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	over := b.over
	b.mu.Unlock()
	if over != nil {
		return 0, over
	}
	n, err := b.from.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	if b.ends(err) {
		b.end(err == io.EOF) //nolint:errorlint // of a body that came whole, not of one that is cut off
	}
	return n, err
}

// Close implements [io.Closer]. It may be called while another goroutine reads.
func (b *body) Close() error {
	if b.ends(errClosed) {
		b.end(false)
	}
	return nil
}

// ends reports whether the body ends now.
func (b *body) ends(over error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over != nil {
		return false
	}
	b.over = over
	return true
}

// end gives the connection back if the answer came whole, and nothing behind it.
func (b *body) end(whole bool) {
	if b.stop() && whole && b.again && b.line.in.Buffered() == 0 {
		b.t.keep(b.line)
		return
	}
	b.line.close()
}
