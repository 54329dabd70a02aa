package a2a

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of an agent's answers by HTTP.
const (
	maxAnswer  = 4 << 20         // bytes of one answer or event
	maxStream  = 32 << 20        // bytes of one stream
	maxEvents  = 10_000          // of one stream
	silence    = 5 * time.Minute // without a byte in a stream
	firstByte  = 10 * time.Minute
	cardWithin = 20 * time.Second
)

// newTransport reaches the addresses that the guard allows. It shares no
// connections.
func newTransport(guard egress.Guard) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, Control: guard.Control}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ResponseHeaderTimeout:  firstByte,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		MaxConnsPerHost:        128,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}
}

// newClient follows no redirect: where an agent is has been approved.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// An httpWay reaches an agent by JSON-RPC or REST.
type httpWay struct {
	client     *http.Client
	at         Interface
	credential string // value of the header Authorization, "" for none
}

// A restPath is the method and path of an operation in the REST binding.
type restPath struct {
	method, path string // ID stands for that of the task
}

var restPaths = map[string]restPath{
	"SendMessage":          {http.MethodPost, "/message:send"},
	"SendStreamingMessage": {http.MethodPost, "/message:stream"},
	"GetTask":              {http.MethodGet, "/tasks/ID"},
	"CancelTask":           {http.MethodPost, "/tasks/ID:cancel"},
	"SubscribeToTask":      {http.MethodPost, "/tasks/ID:subscribe"},
	"GetExtendedAgentCard": {http.MethodGet, "/extendedAgentCard"},
}

// naming are the params of operations on a task.
type naming struct {
	Tenant string `json:"tenant,omitempty"`
	ID     string `json:"id,omitempty"`
}

func (w *httpWay) call(ctx context.Context, operation string, params any) (json.RawMessage, error) {
	answer, err := w.send(ctx, operation, params, false)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return w.result(answer)
}

// result reads an answer that is no stream.
func (w *httpWay) result(answer *http.Response) (json.RawMessage, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &lost{true, "the connection broke before its answer was there"}
	case len(body) > maxAnswer:
		return nil, &lost{true, "its answer is too long"}
	case w.at.Binding == bindingRPC:
		return unwrap(body, answer)
	case answer.StatusCode/100 == 2 && json.Valid(body):
		return body, nil
	}
	return nil, restRefusal(body, answer)
}

// unwrap takes the result out of a response of JSON-RPC.
func unwrap(body []byte, answer *http.Response) (json.RawMessage, error) {
	var r struct {
		Version string          `json:"jsonrpc"`
		Result  json.RawMessage `json:"result"`
		Error   *fault          `json:"error"`
	}
	known := json.Unmarshal(body, &r) == nil && r.Version == "2.0"
	status := http.StatusOK
	if answer != nil {
		status = answer.StatusCode
	}
	switch {
	case known && r.Error != nil:
		refused := r.Error.refusal(status)
		refused.after = retryAfter(answer)
		return nil, refused
	case known && len(r.Result) > 0 && !bytes.Equal(r.Result, []byte("null")):
		return r.Result, nil
	case status/100 != 2:
		return nil, statusRefusal(answer)
	}
	return nil, &lost{true, "its answer is none of JSON-RPC 2.0"}
}

// restRefusal is the error of a REST answer that is no success.
func restRefusal(body []byte, answer *http.Response) error {
	var r struct {
		Error *struct {
			Message string `json:"message"`
			Details []struct {
				Reason string `json:"reason"`
				Domain string `json:"domain"`
			} `json:"details"`
		} `json:"error"`
	}
	if answer.StatusCode/100 == 2 || json.Unmarshal(body, &r) != nil || r.Error == nil {
		return statusRefusal(answer)
	}
	refused := &refusal{status: answer.StatusCode, message: r.Error.Message, after: retryAfter(answer)}
	for _, d := range r.Error.Details {
		if d.Domain == reasonsOfA2A && codesByReason[d.Reason] != 0 {
			refused.code = codesByReason[d.Reason]
		}
	}
	return refused
}

// statusRefusal is the error of an answer that has nothing but its status. A proxy
// between the bridge and the agent may have written it, without knowing what the
// agent has done.
func statusRefusal(answer *http.Response) error {
	status := answer.StatusCode
	switch {
	case status/100 == 2:
		return &lost{true, "its answer is no JSON"}
	case status/100 == 3:
		return &refusal{status: http.StatusNotFound, message: "it redirects, which is not followed"}
	case status/100 == 5 && status != http.StatusServiceUnavailable && status != http.StatusNotImplemented:
		return &lost{true, fmt.Sprintf("what answered was the status %d", status)}
	}
	return &refusal{status: status, message: fmt.Sprintf("status %d", status), after: retryAfter(answer)}
}

// retryAfter is the time to wait that an answer asks for, in milliseconds, at most
// an hour.
func retryAfter(answer *http.Response) int64 {
	if answer == nil {
		return 0
	}
	seconds, err := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(seconds, 3600) * 1000
}

// request makes the request of an operation.
func (w *httpWay) request(ctx context.Context, operation string, params any) (*http.Request, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	method, to := http.MethodPost, w.at.URL
	if w.at.Binding == bindingRPC {
		if body, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": protocol.NewID(), "method": operation, "params": json.RawMessage(body)}); err != nil {
			return nil, err
		}
	} else {
		method, to, body = w.rest(operation, params, body)
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("A2A-Version", Version)
	r.Header.Set("User-Agent", "aibridge")
	if len(body) > 0 {
		r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/a2a+json"}[w.at.Binding == bindingRPC])
	}
	if w.credential != "" {
		r.Header.Set("Authorization", w.credential)
	}
	return r, nil
}

// rest is the request of an operation by REST.
func (w *httpWay) rest(operation string, params any, body []byte) (method, to string, with []byte) {
	path := restPaths[operation]
	base, query, _ := strings.Cut(w.at.URL, "?")
	base = strings.TrimSuffix(base, "/")
	if w.at.Tenant != "" && !strings.HasSuffix(base, "/"+url.PathEscape(w.at.Tenant)) {
		base += "/" + url.PathEscape(w.at.Tenant)
	}
	to = base + path.path
	if n, ok := params.(naming); ok {
		to, body = base+strings.Replace(path.path, "ID", url.PathEscape(n.ID), 1), nil
	}
	if path.method == http.MethodGet {
		body = nil
	}
	if query != "" {
		to += "?" + query
	}
	return path.method, to, body
}

// send sends a request, and returns the answer once its head is there.
func (w *httpWay) send(ctx context.Context, operation string, params any, stream bool) (*http.Response, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	r, err := w.request(ctx, operation, params)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/a2a+json")
	if stream {
		r.Header.Set("Accept", "text/event-stream, application/json, application/a2a+json")
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return nil, &lost{sent.Load(), broken(ctx, err)}
	}
	return answer, nil
}

// broken is the reason for a missing answer. It leaves the agent's address out: only
// the principal that added the agent may know it.
func broken(ctx context.Context, err error) string {
	var blocked *egress.BlockedError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &blocked):
		return "its address may not be called: " + blocked.Reason
	case ctx.Err() != nil:
		return "the call ended before there was an answer"
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	}
	return "the connection failed"
}

func (w *httpWay) stream(ctx context.Context, operation string, params any, take func(json.RawMessage) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := w.send(ctx, operation, params, true)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); media != "text/event-stream" || answer.StatusCode != http.StatusOK {
		result, err := w.result(answer) // an agent that does not stream after all
		if err == nil {
			take(result)
		}
		return err
	}
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	events := newEvents(&alive{answer.Body, quiet})
	for events.next() {
		result := events.data
		if w.at.Binding == bindingRPC {
			if result, err = unwrap(events.data, nil); err != nil {
				return err
			}
		}
		if !take(result) {
			return nil
		}
	}
	return events.err
}

// An alive reader puts off the end of a stream that has something to say.
type alive struct {
	io.Reader
	quiet *time.Timer
}

// Read implements [io.Reader].
func (a *alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.quiet.Reset(silence)
	}
	return n, err
}
