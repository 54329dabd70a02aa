// Package wiretest is a provider that says what a test wrote down: bytes on a
// real socket, whatever they are.
package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// A Reply is what the server answers once.
type Reply struct {
	Status int // 200 if 0
	Header map[string]string
	// Pieces are written and flushed one by one. Content-Type is
	// text/event-stream unless the header says otherwise.
	Pieces []string
	Cut    bool          // break the connection off afterwards
	Hang   time.Duration // before the first piece, or until the client goes
}

// Stream is a reply with one event per line of data.
func Stream(data ...string) Reply {
	var r Reply
	for _, d := range data {
		r.Pieces = append(r.Pieces, "data: "+d+"\n\n")
	}
	return r
}

// JSON is a reply in one piece.
func JSON(status int, body string) Reply {
	return Reply{Status: status, Header: map[string]string{"Content-Type": "application/json"}, Pieces: []string{body}}
}

// A Request is what the server was asked.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// A Server plays replies in turn, the last one again and again.
type Server struct {
	URL string

	mu       sync.Mutex
	replies  []Reply
	requests []Request
}

// New starts a server that ends with the test.
func New(t testing.TB, replies ...Reply) *Server {
	t.Helper()
	s := &Server{replies: replies}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL
	return s
}

// Client is a client of the server.
func (s *Server) Client() *wire.Client {
	return &wire.Client{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, BaseURL: s.URL, Header: http.Header{}}
}

// Requests are those that came so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.RequestURI(), r.Header, body})
	reply := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	s.mu.Unlock()
	if reply.Hang > 0 {
		timer := time.NewTimer(reply.Hang)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
			return
		case <-timer.C:
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for k, v := range reply.Header {
		w.Header().Set(k, v)
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	for _, p := range reply.Pieces {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
	if reply.Cut {
		panic(http.ErrAbortHandler)
	}
}

// Tell is an answer as a text that tests compare: one line for each event.
func Tell(events []chat.Event, err error) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s", e.Index, e.Type)
		if e.Text != "" {
			fmt.Fprintf(&b, " %q", e.Text)
		}
		for _, part := range []any{e.Call, e.Segment, e.Opaque, e.Finish} {
			if raw, _ := json.Marshal(part); string(raw) != "null" {
				fmt.Fprintf(&b, " %s", raw)
			}
		}
		b.WriteByte('\n')
	}
	if failure := new(chat.Error); errors.As(err, &failure) {
		fmt.Fprintf(&b, "! %s %d %s %q\n", failure.Kind, failure.Status, failure.RetryAfter, failure.Message)
	} else if err != nil {
		fmt.Fprintf(&b, "! %v\n", err)
	}
	return b.String()
}

// Recorder collects events.
type Recorder struct{ Events []chat.Event }

// Emit is what providers emit to.
func (r *Recorder) Emit(e chat.Event) error {
	r.Events = append(r.Events, e)
	return nil
}

var update = flag.Bool("update", false, "write what tests get as what they want")

// Golden compares a text with a file in testdata.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s\ngot\n%s\nwant\n%s", path, got, want)
	}
}

// Indent is JSON for people.
func Indent(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String() + "\n"
}

// Everyone asks a provider for an answer to each of the replies, and compares
// what it emits with a golden file of that name. Ids that were made here are
// not compared, but that they are unique.
func Everyone(t *testing.T, provider func(*wire.Client) chat.Provider, r *chat.Request, replies map[string]Reply) {
	t.Helper()
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			s := New(t, reply)
			c := s.Client()
			c.Secrets = []string{"sk-secret-key"}
			var rec Recorder
			err := provider(c).Stream(t.Context(), r, rec.Emit)
			told := made.ReplaceAllString(Tell(rec.Events, err), "<made>")
			Golden(t, strings.NewReplacer(" ", "-", ",", "").Replace(name)+".txt", told)
			if err == nil {
				checkWhole(t, rec.Events)
			}
		})
	}
}

var made = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// checkWhole checks that events fold to an answer whose ids are unique.
func checkWhole(t testing.TB, events []chat.Event) {
	t.Helper()
	var f chat.Folder
	for _, e := range events {
		if err := f.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	a, err := f.Answer()
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, c := range a.Calls() {
		if ids[c.ID] || c.ID == "" {
			t.Errorf("the id %q is used twice", c.ID)
		}
		ids[c.ID] = true
	}
}

// Fuzz feeds a provider whatever comes, as a stream and in one piece. What it
// emits without an error must fold to an answer.
func Fuzz(t *testing.T, provider func(*wire.Client) chat.Provider, r *chat.Request, data []byte) {
	t.Helper()
	for _, kind := range []string{"text/event-stream", "application/json"} {
		c := &wire.Client{HTTP: &http.Client{Transport: canned{kind, data}}, BaseURL: "http://canned"}
		var rec Recorder
		if err := provider(c).Stream(t.Context(), r, rec.Emit); err == nil {
			checkWhole(t, rec.Events)
		}
		_, _ = provider(c).Models(t.Context())
	}
}

// canned answers everything with the same.
type canned struct {
	kind string
	data []byte
}

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {c.kind}},
		Body:       io.NopCloser(bytes.NewReader(c.data)),
	}, nil
}
