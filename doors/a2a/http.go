package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/httpbody"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Headers of the protocol.
const (
	versionHeader    = "A2A-Version"
	extensionsHeader = "A2A-Extensions"
)

// restType is the media type of REST.
const restType = "application/a2a+json"

const (
	writeTimeout = 30 * time.Second // for a piece of an answer
	keepAlive    = 15 * time.Second // between comments in a stream, for proxies in between
)

// An exchange is a request of HTTP and its answer, in one of the bindings.
type exchange struct {
	w   http.ResponseWriter
	r   *http.Request
	rpc bool
	id  json.RawMessage // of the request, of JSON-RPC; nil for null
}

// ServeHTTP serves the endpoint and the paths below it.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(strings.TrimPrefix(r.URL.EscapedPath(), Path), "/")
	to, found := route(r.Method, path)
	x := &exchange{w: w, r: r, rpc: to.rpc || !found && r.Method == http.MethodPost && !strings.Contains(path, "/")}
	who, err := d.opts.Authenticate(r)
	if err != nil || who == nil {
		x.challenge(err)
		return
	}
	if !found {
		x.lost(to.allowed)
		return
	}
	if full := d.places.TryAcquire(fair.Of(who), 1); full != nil {
		x.refuse(full)
		return
	}
	defer d.places.Release(fair.Of(who), 1)
	ctx, release := grant.While(r.Context(), d.opts.Grants, grant.Of(who))
	defer release()
	c := &caller{
		env:   tools.Environment{Principal: who, Space: who.Home(), Traceparent: r.Header.Get("Traceparent")},
		agent: to.agent, origin: originOf(r),
	}
	if to.card {
		made, err := d.cardFor(ctx, c)
		if err != nil {
			x.refuse(err)
			return
		}
		writeCard(w, r, made, "private, max-age=60")
		return
	}
	x.activate()
	if to.rpc {
		d.serveRPC(ctx, x, c)
		return
	}
	d.serveREST(ctx, x, c, &to)
}

// speaks fails unless the request is of the version that is spoken here. One without a
// version is of 0.3, as the protocol has it.
func (x *exchange) speaks() error {
	asked := x.r.Header.Get(versionHeader)
	if asked == "" {
		asked = x.r.URL.Query().Get(versionHeader)
	}
	parts := strings.Split(strings.TrimSpace(asked), ".")
	if (len(parts) == 2 || len(parts) == 3 && number(parts[2])) && parts[0] == "1" && parts[1] == "0" {
		return nil
	}
	if asked == "" {
		asked = "0.3, which a request without the header " + versionHeader + " is of,"
	}
	return refusal(versionNotSupported, "version "+bounded(asked, 64)+" of A2A is not spoken here: send "+versionHeader+": "+Version, "supported", Version)
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// activate sets the header of the activated extensions among the requested ones.
func (x *exchange) activate() {
	x.w.Header().Set(versionHeader, Version)
	for _, line := range x.r.Header.Values(extensionsHeader) {
		if slices.ContainsFunc(strings.Split(line, ","), func(uri string) bool { return strings.TrimSpace(uri) == extension }) {
			x.w.Header().Set(extensionsHeader, extension)
		}
	}
}

// body reads the body of a request.
func (d *Door) body(x *exchange, types ...string) ([]byte, error) {
	media, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(types, media) {
		return nil, &Error{
			kind: &kind{"", invalidRequest.code, http.StatusUnsupportedMediaType, "INVALID_ARGUMENT"}, Message: "the body must be sent as Content-Type: " + types[0],
		}
	}
	body, err := io.ReadAll(httpbody.New(x.w, x.r, int64(d.opts.MaxBytes)))
	if over := new(http.MaxBytesError); errors.As(err, &over) {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "requests may have %d bytes", over.Limit).With("limit", over.Limit)
	}
	if err != nil {
		x.w.Header().Set("Connection", "close")
		return nil, refusal(invalidRequest, "the body did not arrive")
	}
	return body, nil
}

// challenge answers a client that is not let in.
func (x *exchange) challenge(err error) {
	known := protocol.AsError(err)
	if known == nil {
		known = protocol.Errorf(protocol.NotAuthenticated, "show a credential in the Authorization header")
	}
	if known.Code.HTTPStatus() == http.StatusUnauthorized {
		challenge := `Bearer realm="aibridge"`
		if known.Code == protocol.CredentialInvalid {
			challenge += `, error="invalid_token"`
		}
		x.w.Header().Set("WWW-Authenticate", challenge)
	}
	x.refuse(known)
}

// lost answers a request for an unknown path or method.
func (x *exchange) lost(allowed string) {
	if allowed != "" {
		x.w.Header().Set("Allow", allowed)
		x.refuse(&Error{kind: &kind{"", methodNotFound.code, http.StatusMethodNotAllowed, "UNIMPLEMENTED"}, Message: "this path takes " + allowed})
		return
	}
	x.refuse(&Error{kind: methodNotFound, Message: "there is nothing at this path"})
}

// refuse answers with an error.
func (x *exchange) refuse(err error) {
	e := asError(err)
	if e.cause != nil {
		if wait, ok := e.cause.Details["retry_after_ms"].(int64); ok {
			x.w.Header().Set("Retry-After", strconv.FormatInt((wait+999)/1000, 10))
		}
	}
	if !x.rpc {
		x.write(e.kind.http, restType, e.rest())
		return
	}
	status := http.StatusOK // as JSON-RPC has it; but for errors of HTTP
	switch e.kind.http {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
		http.StatusTooManyRequests, http.StatusMethodNotAllowed:
		status = e.kind.http
	}
	x.write(status, jsonType, x.response(nil, e))
}

// answer answers with a result.
func (x *exchange) answer(result any) {
	if x.rpc {
		x.write(http.StatusOK, jsonType, x.response(result, nil))
		return
	}
	body, err := json.Marshal(result)
	if err != nil {
		x.refuse(protocol.Wrap(protocol.Internal, err, "the answer cannot be written"))
		return
	}
	x.write(http.StatusOK, restType, body)
}

// response is a response of JSON-RPC.
func (x *exchange) response(result any, e *Error) []byte {
	answer := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitempty"`
		Error   *rpcError       `json:"error,omitempty"`
	}{Version: "2.0", ID: x.id, Result: result}
	if answer.ID == nil {
		answer.ID = json.RawMessage("null")
	}
	if e != nil {
		answer.Error = e.rpc()
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	return body
}

func (x *exchange) write(status int, media string, body []byte) {
	x.inTime()
	h := x.w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // the client may have disconnected
}

// inTime sets the time limit of the next write of the answer.
func (x *exchange) inTime() {
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every transport can
}

// perform runs an operation and answers.
func (d *Door) perform(ctx context.Context, x *exchange, c *caller, op operation, r *reader) {
	if op.stream == nil {
		result, err := op.run(d, ctx, c, r)
		if err != nil {
			x.refuse(err)
			return
		}
		x.answer(result)
		return
	}
	s, err := op.stream(d, ctx, c, r)
	if err != nil {
		x.refuse(err)
		return
	}
	defer s.leave()
	d.stream(ctx, x, s)
}

// stream answers with server-sent events until the end of the stream.
func (d *Door) stream(ctx context.Context, x *exchange, s *stream) {
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies that gather answers must not
	x.w.WriteHeader(http.StatusOK)
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.opts.Leaving.Done():
			return
		case <-alive.C:
			x.piece([]byte(":\n\n"))
		case event, ok := <-s.listener.events:
			if !ok {
				if s.listener.slow {
					panic(http.ErrAbortHandler) // rather than a stream that seems to have ended well
				}
				return
			}
			if event.Task != nil {
				event.Task.cut(s.cut)
			}
			x.piece(x.event(&event))
			if state := event.state(); state.terminal() || s.resting && state == InputRequired {
				return
			}
		}
	}
}

// event is an event as a stream of the binding has it. JSON has no line ends within.
func (x *exchange) event(e *StreamResponse) []byte {
	var body []byte
	if x.rpc {
		body = x.response(e, nil)
	} else if text, err := json.Marshal(e); err == nil {
		body = text
	}
	return slices.Concat([]byte("data: "), body, []byte("\n\n"))
}

func (x *exchange) piece(text []byte) {
	x.inTime()
	_, _ = x.w.Write(text) // a reader that is gone ends the context of the request
	_ = http.NewResponseController(x.w).Flush()
}

// unescaped is a segment of a path.
func unescaped(segment string) string {
	if text, err := url.PathUnescape(segment); err == nil {
		return text
	}
	return segment
}
