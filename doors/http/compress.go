package http

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"

	"github.com/aibridge/aibridge/protocol"
)

// compressFrom is the size in bytes from which answers are worth compressing:
// below it gzip saves no packet.
const compressFrom = 1400

// compress sends the larger answers of a handler as gzip to clients that take
// it. Event streams go out as they are, see [uncompressed].
func compress(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false),
		gzhttp.ContentTypes([]string{"application/json", "text/html"}))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap(next)
}

// uncompressed is the writer below those of [compress], which would keep the
// head of a stream back until there is something to compress.
func uncompressed(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapping, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapping.Unwrap()
	}
}

// gzipped reports whether the body of a request is compressed.
func gzipped(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip")
}

// An inflated body is the plain text of a compressed one, bounded: a few bytes
// may stand for a million.
type inflated struct {
	from  io.Reader
	gzip  *gzip.Reader
	left  int64
	limit int64
}

// inflate reads a compressed body that may have limit bytes in plain.
func inflate(body io.Reader, limit int64) io.Reader {
	return &inflated{from: body, left: limit, limit: limit}
}

// Read implements [io.Reader]. It ends in an [http.MaxBytesError] when the
// text is too long.
func (i *inflated) Read(p []byte) (n int, err error) {
	if i.gzip == nil {
		if i.gzip, err = gzip.NewReader(i.from); err != nil {
			return 0, badGzip(err)
		}
	}
	if int64(len(p)) > i.left+1 {
		p = p[:i.left+1]
	}
	n, err = i.gzip.Read(p)
	if i.left -= int64(n); i.left < 0 {
		return 0, &http.MaxBytesError{Limit: i.limit}
	}
	if err != nil && err != io.EOF {
		err = badGzip(err)
	}
	return n, err
}

func badGzip(err error) error {
	if _, over := err.(*http.MaxBytesError); over {
		return err
	}
	return protocol.Wrap(protocol.MalformedEnvelope, err, "the body is not gzip, as its Content-Encoding says, or it is cut off")
}
