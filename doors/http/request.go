package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/httpbody"
	"github.com/aibridge/aibridge/protocol"
)

// writeTimeout is the time that an answer may take to leave.
const writeTimeout = 30 * time.Second

// A refusal is an error with the HTTP status it has here, which for a few is
// more precise than that of the code.
type refusal struct {
	status int
	err    *protocol.Error
}

func refuse(err *protocol.Error) *refusal { return &refusal{err.Code.HTTPStatus(), err} }

// principal returns the principal of a request.
func (a *API) principal(r *http.Request) (*protocol.Principal, *refusal) {
	who, err := a.Authenticate(r)
	if err == nil && who != nil {
		return who, nil
	}
	var known *protocol.Error
	if errors.As(err, &known) {
		return nil, refuse(known)
	}
	return nil, refuse(protocol.Wrap(protocol.NotAuthenticated, err, "show a credential in the Authorization header"))
}

// accept makes the checks that need no body: authentication, room for another request,
// JSON. The done function must be called at the end.
func (a *API) accept(r *http.Request) (who *protocol.Principal, done func(), no *refusal) {
	if who, no = a.principal(r); no != nil {
		return nil, nil, no
	}
	if !isJSON(r) {
		return nil, nil, &refusal{http.StatusUnsupportedMediaType, protocol.Errorf(protocol.MalformedEnvelope,
			"the body must be sent as Content-Type: application/json, plain or with Content-Encoding: gzip")}
	}
	party := fair.Of(who)
	if err := a.requests.TryAcquire(party, 1); err != nil {
		return nil, nil, refuse(err)
	}
	return who, func() { a.requests.Release(party, 1) }, nil
}

// address is the address that a request came from.
func address(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero Addr says that it is not known
	return from.Addr().Unmap()
}

// isJSON wants the JSON media type said out loud: pages of other origins can
// only send the types of forms without being asked first.
func isJSON(r *http.Request) bool {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" && !gzipped(r) {
		return false
	}
	said := r.Header.Get("Content-Type")
	if said == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(said)
	if err != nil || media != "application/json" {
		return false
	}
	charset := params["charset"]
	return charset == "" || strings.EqualFold(charset, "utf-8")
}

// body reads all of the request's body, in plain, into a buffer that goes back
// with release.
func (a *API) body(w http.ResponseWriter, r *http.Request) (*bytes.Buffer, *refusal) {
	limit := int64(a.Limits.MaxBytes)
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, refuse(tooLarge(limit))
	}
	buf, ok := a.buffers.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	var text io.Reader = httpbody.New(w, r, limit)
	if gzipped(r) {
		text = inflate(text, limit)
	}
	_, err := buf.ReadFrom(text)
	if err == nil {
		return buf, nil
	}
	a.release(buf)
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, refuse(tooLarge(limit))
	}
	w.Header().Set("Connection", "close")
	var unreadable *protocol.Error
	if errors.As(err, &unreadable) {
		return nil, refuse(unreadable)
	}
	return nil, refuse(protocol.Wrap(protocol.MalformedEnvelope, err, "the body did not arrive"))
}

// release takes a buffer back unless it has grown large.
func (a *API) release(buf *bytes.Buffer) {
	if buf.Cap() <= 64<<10 {
		buf.Reset()
		a.buffers.Put(buf)
	}
}

func tooLarge(limit int64) *protocol.Error {
	return protocol.Errorf(protocol.PayloadTooLarge, "requests may have %d bytes", limit).With("limit", limit)
}

// boundWrite gives the reader of an answer a while to take it.
func boundWrite(w io.Writer) {
	if rw, ok := w.(http.ResponseWriter); ok {
		_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(writeTimeout))
	}
}

// requestOf is the request that headers, query and path of a POST to
// /api/v1/commands/{command} describe, still without params.
//
// Its id is the Idempotency-Key, else the X-Request-Id, else a new one. A
// client that repeats a request after a failure of the network must send the
// same one again, or the command may run twice.
func (a *API) requestOf(r *http.Request) (*protocol.Request, *protocol.Error) {
	req := &protocol.Request{
		Version:   protocol.Version,
		Timestamp: a.Now().UnixMilli(),
		Command:   r.PathValue("command"),
		Metadata:  protocol.Metadata{Timeout: protocol.DefaultTimeout, Events: wantsEvents(r)},
	}
	var err *protocol.Error
	if req.ID, err = requestID(r.Header); err != nil {
		return nil, err
	}
	if req.Metadata.TraceID, err = headerField(r.Header, "X-Trace-Id", protocol.MaxTraceLength); err != nil {
		return nil, err
	}
	if req.Metadata.Timeout, err = timeout(r); err != nil {
		return nil, err
	}
	if text := r.Header.Get("X-Priority"); text != "" {
		p, ok := protocol.ParsePriority(text)
		if !ok {
			return nil, protocol.InvalidParam("X-Priority", "must be low, medium or high")
		}
		req.Metadata.Priority = p
	}
	if text := r.Header.Get("X-Min-Revision"); text != "" {
		var bad error
		if req.Metadata.MinRevision, bad = strconv.ParseUint(text, 10, 53); bad != nil {
			return nil, protocol.InvalidParam("X-Min-Revision", "must be a revision that an answer had as X-Revision")
		}
	}
	if !utf8.ValidString(req.Command) {
		return nil, protocol.Errorf(protocol.UnknownCommand, "the command's name is not UTF-8")
	}
	return req, nil
}

func requestID(h http.Header) (string, *protocol.Error) {
	key, err := headerField(h, "Idempotency-Key", protocol.MaxIDLength+2)
	if err != nil {
		return "", err
	}
	// The header's standard has the key in quotes; most people leave them out.
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	if utf8.RuneCountInString(key) > protocol.MaxIDLength {
		return "", tooLong("Idempotency-Key", protocol.MaxIDLength)
	}
	if key != "" {
		return key, nil
	}
	id, err := headerField(h, "X-Request-Id", protocol.MaxIDLength)
	if err != nil || id != "" {
		return id, err
	}
	return protocol.NewID(), nil
}

func headerField(h http.Header, name string, maxLength int) (string, *protocol.Error) {
	value := h.Get(name)
	if !utf8.ValidString(value) {
		return "", protocol.InvalidParam(name, "is not valid UTF-8")
	}
	if utf8.RuneCountInString(value) > maxLength {
		return "", tooLong(name, maxLength)
	}
	return value, nil
}

func tooLong(name string, maxLength int) *protocol.Error {
	return protocol.InvalidParam(name, "must have at most "+strconv.Itoa(maxLength)+" characters")
}

// timeout is ?timeout_ms=, else X-Timeout-Ms, else the protocol's default.
func timeout(r *http.Request) (time.Duration, *protocol.Error) {
	name, text := "timeout_ms", r.URL.Query().Get("timeout_ms")
	if text == "" {
		name, text = "X-Timeout-Ms", r.Header.Get("X-Timeout-Ms")
	}
	if text == "" {
		return protocol.DefaultTimeout, nil
	}
	longest := protocol.MaxTimeout.Milliseconds()
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > longest {
		return 0, protocol.InvalidParam(name, "must be a whole number of milliseconds from 1 to "+strconv.FormatInt(longest, 10))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// traceparent is the W3C trace context of the request, "" unless it is well
// formed: version 00, which later versions must be readable as.
func traceparent(r *http.Request) string {
	value := r.Header.Get("Traceparent")
	if len(value) != len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") {
		return ""
	}
	for i := range len(value) {
		c := value[i]
		switch {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return ""
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
		default:
			return ""
		}
	}
	return value
}

// wantsEvents reports whether the client asked for an event stream.
func wantsEvents(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		if accept == "*/*" || accept == "application/json" {
			continue
		}
		for part := range strings.SplitSeq(accept, ",") {
			media, _, err := mime.ParseMediaType(strings.TrimSpace(part))
			if err == nil && media == "text/event-stream" {
				return true
			}
		}
	}
	return false
}

// takesAnything reports whether the client leaves the form of the answer to
// the bridge.
func takesAnything(r *http.Request) bool {
	accepts := r.Header.Values("Accept")
	return len(accepts) == 0 || strings.Contains(strings.Join(accepts, ","), "*/*")
}

// asksToStream reports whether params ask for the pieces of the answer.
func asksToStream(params []byte) bool {
	var p struct {
		Stream bool `json:"stream"`
	}
	return json.Unmarshal(params, &p) == nil && p.Stream
}
