package files

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/vfs"
)

// A preconditionError is a 3003 that HTTP has a status of its own for.
type preconditionError struct{ cause *protocol.Error }

// Error is the text of the cause.
func (e preconditionError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e preconditionError) Unwrap() error { return e.cause }

// fail answers {"success":false,"error":{…}} with the status of the code.
func fail(w http.ResponseWriter, err error) {
	e := protocol.AsError(err)
	status := e.Code.HTTPStatus()
	if failed := (preconditionError{}); errors.As(err, &failed) {
		status = http.StatusPreconditionFailed
	}
	failStatus(w, status, e)
}

func failStatus(w http.ResponseWriter, status int, e *protocol.Error) {
	h := w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Disposition", "Accept-Ranges", "Content-Range"} {
		h.Del(name)
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="aibridge"`)
	}
	if wait := e.RetryAfter(); wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	write(w, status, append(e.Append([]byte(`{"success":false,"error":`)), "}\n"...))
}

func refuseMethod(w http.ResponseWriter, methods ...string) {
	list := strings.Join(methods, ", ")
	w.Header().Set("Allow", list)
	failStatus(w, http.StatusMethodNotAllowed, protocol.Errorf(protocol.MalformedEnvelope, "this path takes %s", list))
}

func succeed(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	write(w, status, append(body, '\n'))
	return nil
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
	_, _ = w.Write(body)
}

// etag names a version of a file.
func etag(f vfs.File) string { return `"` + strconv.FormatUint(f.Version, 10) + `"` }

// parseETag reads the version out of an entity tag as [etag] makes them.
func parseETag(tag string) (uint64, bool) {
	n := len(tag)
	if n < 3 || tag[0] != '"' || tag[n-1] != '"' {
		return 0, false
	}
	version, err := strconv.ParseUint(tag[1:n-1], 10, 64)
	return version, err == nil && version > 0
}

// ifVersion reads the condition of If-Match and If-None-Match on the file to be
// changed.
func ifVersion(h http.Header) (*uint64, error) {
	match, none := h.Get("If-Match"), h.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return nil, protocol.InvalidParam("If-Match", "cannot be beside If-None-Match")
	case none == "*":
		return new(uint64), nil
	case none != "":
		return nil, protocol.InvalidParam("If-None-Match", "can only be * here")
	case match == "":
		return nil, nil
	}
	version, ok := parseETag(match)
	if !ok {
		return nil, protocol.InvalidParam("If-Match", "must be the ETag of one version")
	}
	return &version, nil
}

// describe sets the headers that describe a file.
func describe(h http.Header, f vfs.File) {
	h.Set("Etag", etag(f))
	h.Set("Last-Modified", f.Modified.UTC().Format(http.TimeFormat))
	h.Set("X-File-Id", f.ID)
	h.Set("X-File-Path", url.PathEscape(f.Path))
	h.Set("X-File-Version", strconv.FormatUint(f.Version, 10))
	h.Set("X-Checksum-Sha256", f.SHA256.String())
	if f.Mtime != 0 {
		h.Set("X-File-Mtime", strconv.FormatInt(f.Mtime, 10))
	}
	h.Set("Repr-Digest", "sha-256=:"+base64Sum(f.SHA256)+":")
	h.Set("Cache-Control", "private, no-cache") // keep it, but ask
	h.Set("Content-Disposition", disposition(f.Path))
	h.Set("Content-Type", safeType(f.ContentType))
}

// disposition has the file saved, never shown: it may be a page with scripts.
func disposition(p string) string {
	name := path.Base(p)
	ascii := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '%' {
			return '_'
		}
		return c
	}, name)
	value := `attachment; filename="` + ascii + `"`
	if ascii != name {
		value += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return value
}

// safeType is a media type that was stored, if it is one.
func safeType(t string) string {
	if media, params, err := mime.ParseMediaType(t); err == nil && strings.Contains(media, "/") {
		if formatted := mime.FormatMediaType(media, params); formatted != "" {
			return formatted
		}
	}
	return "application/octet-stream"
}

// A pacer bounds how long a client may take for the next piece, in either
// direction.
type pacer struct {
	control  *http.ResponseController
	patience time.Duration
	grants   grant.Authority
	grant    grant.Grant
	// last is asked when a whole upload has arrived, before it is taken;
	// optional.
	last func(who *protocol.Principal) error

	ended atomic.Pointer[error] // why the credential has
	stop  func() bool
}

// pace begins an upload or a download. It is to be stopped.
func (h *Handler) pace(w http.ResponseWriter, who *protocol.Principal) *pacer {
	p := &pacer{control: http.NewResponseController(w), patience: h.Patience, grants: h.Grants, grant: grant.Of(who)}
	p.stop = p.grants.OnEnd(p.grant, func(why error) {
		p.ended.Store(&why)
		_ = p.control.SetReadDeadline(time.Unix(1, 0)) // for the client that is waited for just now
		_ = p.control.SetWriteDeadline(time.Unix(1, 0))
	})
	return p
}

// valid fails if there is to be no further piece.
func (p *pacer) valid() error {
	if why := p.ended.Load(); why != nil {
		return *why
	}
	_, err := p.grants.Principal(p.grant)
	return err
}

// whole fails if an upload that has arrived is not to be taken.
func (p *pacer) whole() error {
	who, err := p.grants.Principal(p.grant)
	if err != nil || p.last == nil {
		return err
	}
	return p.last(who)
}

// piece is the number of bytes that have to get through within the patience.
const piece = 256 << 10

// slowest is the rate, in bytes a second, below which an upload ends: a byte
// now and then is no progress.
const slowest = 512

// A pacedBody reads an upload.
type pacedBody struct {
	body  io.Reader
	pacer *pacer
	began time.Time
	got   int64
}

func (p *pacer) body(r io.Reader) *pacedBody {
	return &pacedBody{body: r, pacer: p, began: time.Now()}
}

// Read implements [io.Reader].
func (b *pacedBody) Read(p []byte) (int, error) {
	now := time.Now()
	if late := now.Sub(b.began) - b.pacer.patience; late > time.Duration(b.got/slowest)*time.Second {
		return 0, protocol.Errorf(protocol.TimedOut, "the upload is too slow")
	}
	_ = b.pacer.control.SetReadDeadline(now.Add(b.pacer.patience))
	if err := b.pacer.valid(); err != nil { // behind the deadline, which its end would have set
		return 0, err
	}
	n, err := b.body.Read(p)
	b.got += int64(n)
	if ended := b.pacer.valid(); ended != nil {
		return 0, ended
	}
	if err == io.EOF {
		if refused := b.pacer.whole(); refused != nil {
			return 0, refused
		}
	}
	return n, err
}

// end lets the server go on listening to the client.
func (b *pacedBody) end() { _ = b.pacer.control.SetReadDeadline(time.Time{}) }

// A pacedWriter writes a download, a piece at a time.
type pacedWriter struct {
	http.ResponseWriter
	pacer *pacer
}

// Write implements [io.Writer].
func (w pacedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		size := min(len(p), piece)
		_ = w.pacer.control.SetWriteDeadline(time.Now().Add(w.pacer.patience))
		if err := w.pacer.valid(); err != nil {
			return n, err
		}
		wrote, err := w.ResponseWriter.Write(p[:size])
		n += wrote
		if err != nil {
			return n, err
		}
		p = p[size:]
	}
	return n, nil
}

// ReadFrom implements [io.ReaderFrom] with a larger buffer than io.Copy has.
func (w pacedWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, piece))
}
