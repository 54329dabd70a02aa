// Package httpbody reads the bodies of HTTP requests, bounded in size and in
// time: a client that sends slowly, or nothing, does not hold the resources of a
// request.
package httpbody

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// The times within which a body arrives.
const (
	within   = 30 * time.Second // in all
	patience = 5 * time.Second  // before its first byte, and with one that is slow later
	slowest  = 1 << 10          // bytes a second
)

// A Reader is the body of a request.
type Reader struct {
	from    io.Reader
	control *http.ResponseController
	start   time.Time
	read    int64
}

// New returns the body of a request. Beyond limit bytes it fails with
// [http.MaxBytesError], and with [os.ErrDeadlineExceeded] when it does not
// arrive in time; the connection is not to be used again then.
func New(w http.ResponseWriter, r *http.Request, limit int64) *Reader {
	return &Reader{from: http.MaxBytesReader(w, r.Body, limit), control: http.NewResponseController(w), start: time.Now()}
}

// Read implements [io.Reader].
func (b *Reader) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(b.deadline()) // not every transport can, HTTP/1 and 2 do
	n, err := b.from.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		// The server goes on reading to see whether the client is there; that
		// must not end the request.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// deadline is by when the next byte has to be there.
func (b *Reader) deadline() time.Time {
	return b.start.Add(min(within, patience+time.Duration(b.read)*time.Second/slowest))
}
