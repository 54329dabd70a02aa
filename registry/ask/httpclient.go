package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/protocol"
)

// An httpClient calls skills over HTTP (docs/protocol.md#an-agents-side-of-a-call).
// Endpoints come from the principal that registered the skill, so neither they nor their
// answers are trusted: addresses are checked when they are dialled, redirects stay on the
// host, proxies are not asked, and answers are bounded in size and time.
type httpClient struct {
	client    *http.Client
	transport *http.Transport
	maxBytes  int64
}

const (
	dialTimeout  = 5 * time.Second
	maxRedirects = 3
)

func newHTTPClient(allowPrivate bool, limits protocol.Limits) *httpClient {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: egress.Guard{AllowPrivate: allowPrivate}.Control}
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		MaxConnsPerHost:        64,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 16 << 10,
		DisableCompression:     true,
	}
	w := &httpClient{transport: transport, maxBytes: int64(limits.MaxBytes)}
	if w.maxBytes <= 0 {
		w.maxBytes = protocol.DefaultMaxBytes
	}
	w.client = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return w
}

func (w *httpClient) close() { w.transport.CloseIdleConnections() }

// checkRedirect allows a redirect only if it repeats the same request on the same host.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case next.Method != first.Method:
		return errors.New("the redirect drops the request's body")
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		return errors.New("the redirect leads to another host")
	}
	return nil
}

// An httpError is why a POST gave no answer.
type httpError struct {
	reason string
	sent   bool // the request may have reached the skill
	cause  error
}

// Error is the reason, without the cause, which may reveal the network.
func (e *httpError) Error() string { return e.reason }

// Unwrap returns the cause.
func (e *httpError) Unwrap() error { return e.cause }

// An httpRequest is a request to be posted.
type httpRequest struct {
	endpoint    string
	envelope    []byte
	traceparent string // "" without one
	caller      string // the mark of the caller, "" without one
}

// An httpAnswer is a message that came back from a POST: the only one, or one of
// an event stream.
type httpAnswer struct {
	status   int
	streamed bool
	body     []byte
}

// callerHeader is the header with the mark of the caller, see callerMarks.
const callerHeader = "X-Bridge-Caller"

// post sends an envelope and hands over the answers. The error is a *httpError.
func (w *httpClient) post(ctx context.Context, q httpRequest, take func(httpAnswer)) error {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	fail := func(cause error, format string, args ...any) error {
		return &httpError{fmt.Sprintf(format, args...), sent.Load(), cause}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.endpoint, bytes.NewReader(q.envelope))
	if err != nil {
		return fail(err, "the endpoint is not a URL")
	}
	r.Header.Set("Content-Type", protocol.ContentJSON)
	r.Header.Set("Accept", protocol.ContentJSON+", "+eventStreamType)
	r.Header.Set("User-Agent", "aibridge/"+protocol.Version)
	if q.traceparent != "" {
		r.Header.Set("Traceparent", q.traceparent)
	}
	if q.caller != "" {
		r.Header.Set(callerHeader, q.caller)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return fail(err, "%s", plainReason(err))
	}
	defer func() { _ = answer.Body.Close() }()
	if isEventStream(answer) {
		err := readEvents(answer.Body, w.maxBytes, func(data []byte) { take(httpAnswer{answer.StatusCode, true, data}) })
		if err != nil {
			return fail(err, "its event stream broke off: %s", plainReason(err))
		}
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, w.maxBytes+1))
	switch {
	case err != nil:
		return fail(err, "the answer broke off: %s", plainReason(err))
	case int64(len(body)) > w.maxBytes:
		return fail(nil, "the answer is larger than %d bytes", w.maxBytes)
	}
	take(httpAnswer{status: answer.StatusCode, body: body})
	return nil
}

// plainReason is the text of an error without details that the caller must not learn,
// such as internal addresses of a name.
func plainReason(err error) string {
	var blocked *egress.BlockedError
	var dns *net.DNSError
	var op *net.OpError
	var target *url.Error
	switch {
	case errors.As(err, &blocked):
		return "its address may not be called: " + blocked.Reason
	case errors.As(err, &dns):
		return "its name does not resolve"
	case errors.As(err, &op) && op.Op == "dial":
		return "it cannot be connected to"
	case errors.As(err, &op):
		return "the connection broke"
	case errors.As(err, &target):
		return target.Err.Error()
	}
	return err.Error()
}
