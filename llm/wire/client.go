package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
	"github.com/aibridge/aibridge/protocol"
)

// The bounds of one answer of a provider.
const (
	maxEvent = 16 << 20 // bytes of one event: images come whole
	maxBody  = 64 << 20 // of an answer that is no stream
	maxError = 64 << 10 // of the body of an error, the rest is not read
	maxTold  = 500      // of an error's message to callers
)

// A Client speaks HTTP to one service.
type Client struct {
	HTTP    *http.Client
	BaseURL string      // without a slash at its end
	Header  http.Header // of every request, credentials included
	Secrets []string    // never repeated in an error
	Idle    time.Duration
	Now     func() time.Time
}

// Post sends body and passes the answer to events, one call for each event of a stream,
// or to whole if the service answers in one piece.
func (c *Client) Post(ctx context.Context, path string, body []byte, events func(sse.Event) error, whole func([]byte) error) error {
	ctx, watch := c.watch(ctx)
	defer watch.stop()
	resp, err := c.do(ctx, http.MethodPost, path, body) //nolint:bodyclose // drain does
	if err != nil {
		return c.broken(ctx, err)
	}
	defer drain(resp.Body)
	if resp.StatusCode/100 != 2 {
		return c.refusal(resp)
	}
	in := &meteredReader{r: watch.reader(resp.Body), ctx: ctx}
	defer in.letGo()
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "text/html":
		return &chat.Error{Kind: chat.BadResponse, Status: resp.StatusCode, Message: "a web page answered instead of the provider"}
	case "application/json":
		data, err := readAll(in, maxBody)
		if err != nil {
			return c.broken(ctx, err)
		}
		return whole(data)
	}
	r := sse.NewReader(in, maxEvent)
	defer r.Release()
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, sse.ErrTooLong):
			return &chat.Error{Kind: chat.BadResponse, Message: "an event is too large"}
		case err != nil:
			return c.broken(ctx, err)
		}
		if err := events(e); err != nil {
			if errors.Is(err, Done) {
				return nil
			}
			return err
		}
		in.letGo()
	}
}

// Done is the error of a receiver of events that ends the reading of a stream after the
// answer.
var Done = errors.New("done") //nolint:errname,staticcheck // it is no failure, like fs.SkipAll

// Get reads a JSON document.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	ctx, watch := c.watch(ctx)
	defer watch.stop()
	resp, err := c.do(ctx, http.MethodGet, path, nil) //nolint:bodyclose // drain does
	if err != nil {
		return c.broken(ctx, err)
	}
	defer drain(resp.Body)
	if resp.StatusCode/100 != 2 {
		return c.refusal(resp)
	}
	data, err := readAll(watch.reader(resp.Body), maxBody)
	if err != nil {
		return c.broken(ctx, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &chat.Error{Kind: chat.BadResponse, Message: "the answer is not the JSON it should be", Cause: err}
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, reader)
	if err != nil {
		return nil, err
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	return c.HTTP.Do(req) //nolint:bodyclose // callers do
}

// drain reads the rest of a body, if it is short, so that the connection can be reused,
// and closes the body.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

var errTooMuch = errors.New("the answer is too large")

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errTooMuch
	}
	return data, err
}

var errIdle = errors.New("the provider says nothing any more")

// A watchdog ends an exchange that is idle for too long.
type watchdog struct {
	timer *time.Timer
	idle  time.Duration
	end   context.CancelCauseFunc
}

func (c *Client) watch(ctx context.Context) (context.Context, *watchdog) {
	ctx, end := context.WithCancelCause(ctx)
	w := &watchdog{idle: c.Idle, end: end}
	if w.idle > 0 {
		w.timer = time.AfterFunc(w.idle, func() { end(errIdle) })
	}
	return ctx, w
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.end(nil)
}

func (w *watchdog) reader(r io.Reader) io.Reader {
	if w.timer == nil {
		return r
	}
	return watchedReader{r, w}
}

type watchedReader struct {
	r io.Reader
	w *watchdog
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.w.timer.Reset(r.w.idle)
	}
	return n, err
}

// broken is the error of an exchange that broke off: the cause of ctx, or a
// [chat.Error].
func (c *Client) broken(ctx context.Context, err error) error {
	var timeout net.Error
	if full := new(protocol.Error); errors.As(err, &full) { // see Meter
		return full
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errIdle):
		return &chat.Error{Kind: chat.TimedOut, Message: errIdle.Error(), Cause: err}
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &chat.Error{Kind: chat.TimedOut, Message: "the provider did not answer in time", Cause: err}
	case cause != nil:
		return cause
	case errors.Is(err, errTooMuch):
		return &chat.Error{Kind: chat.BadResponse, Message: errTooMuch.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &chat.Error{Kind: chat.CutOff, Message: "the connection to the provider broke off", Cause: err}
	}
	return &chat.Error{Kind: chat.Unreachable, Message: "the provider cannot be reached", Cause: err}
}

// refusal reads the error of a response with a status of failure.
func (c *Client) refusal(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	told := toldBy(data)
	e := &chat.Error{
		Status:     resp.StatusCode,
		Kind:       told.kind(resp.StatusCode),
		RetryAfter: max(retryAfter(resp.Header, c.now()), told.retryAfter),
		Message:    c.tell(told.message),
		Param:      c.tell(told.param),
	}
	if e.Message == "" {
		e.Message = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	return e
}

// Failure is the error that a service sends inside an answer or a stream.
func (c *Client) Failure(raw json.RawMessage) *chat.Error {
	told := toldBy(raw)
	status, _ := strconv.Atoi(told.code)
	kind := told.kind(status)
	if kind == chat.BadRequest && status == 0 {
		kind = chat.Unavailable // it has taken the request and failed at it
	}
	return &chat.Error{Kind: kind, Status: status, RetryAfter: told.retryAfter, Message: c.tell(told.message), Param: c.tell(told.param)}
}

// tell shortens a message and removes secrets.
func (c *Client) tell(message string) string {
	for _, secret := range c.Secrets {
		if len(secret) >= 4 {
			message = strings.ReplaceAll(message, secret, "***")
		}
	}
	message = strings.ToValidUTF8(strings.TrimSpace(message), "\ufffd")
	if len(message) > maxTold {
		message = strings.ToValidUTF8(message[:maxTold], "") + "…"
	}
	return message
}

func (c *Client) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// longestRetry is the longest delay that a service may ask for.
const longestRetry = time.Hour

// retryAfter is the delay before the next request that a service asks for.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000)
	}
	if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return seconds(at.Sub(now).Seconds())
	}
	return 0
}

func seconds(s float64) time.Duration {
	if !(s > 0) { // nor a number at all
		return 0
	}
	return time.Duration(min(s, longestRetry.Seconds()) * float64(time.Second))
}
