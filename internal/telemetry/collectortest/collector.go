// Package collectortest has an OpenTelemetry collector for tests.
package collectortest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Collector takes traces by OTLP over HTTP, until its test ends.
type Collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	spans    []*tracepb.Span
	answers  []func(http.ResponseWriter)
}

// New starts a collector that gives some answers, and takes everything once these
// are used up.
func New(t testing.TB, answers ...func(http.ResponseWriter)) *Collector {
	t.Helper()
	c := &Collector{answers: answers}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// Requests are the received requests.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Spans are the accepted spans.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// ServeHTTP implements [http.Handler].
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	if n := len(c.requests); n <= len(c.answers) {
		c.answers[n-1](w)
		return
	}
	data, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, r := range data.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// read reads the traces of a request.
func read(r *http.Request) (*tracepb.TracesData, error) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	data := new(tracepb.TracesData)
	return data, proto.Unmarshal(b, data)
}
