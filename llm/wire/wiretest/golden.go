// Package wiretest tests the adapters of the wires against recorded answers of
// providers, by golden files.
package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// The parts of a script, see package scripted.
type (
	Reply   = scripted.Reply
	Request = scripted.Request
	Server  = scripted.Server
)

// New starts a server that ends with the test.
func New(t testing.TB, replies ...Reply) *Server { return scripted.New(t, replies...) }

// Stream is a reply with one event per line of data.
func Stream(data ...string) Reply { return scripted.Stream(data...) }

// JSON is a reply in one piece.
func JSON(status int, body string) Reply { return scripted.JSON(status, body) }

// Tell is the text of an answer for comparisons in tests: one line for each event.
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

// Emit is the receiver of the events of providers.
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

// Indent is JSON with line breaks and indentation.
func Indent(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String() + "\n"
}

// Everyone requests an answer for each of the replies, and compares its events with a
// golden file of the reply's name. Ids made by the adapter are not compared, but must
// be unique.
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

// Fuzz passes data to a provider, as a stream and in one piece. Its events without an
// error must fold to an answer.
func Fuzz(t *testing.T, provider func(*wire.Client) chat.Provider, r *chat.Request, data []byte) {
	t.Helper()
	for _, kind := range []string{"text/event-stream", "application/json"} {
		c := &wire.Client{HTTP: &http.Client{Transport: canned{kind, data}}, BaseURL: "http://canned"}
		var rec Recorder
		err := provider(c).Stream(t.Context(), r, rec.Emit)
		checkClean(t, rec.Events)
		if err == nil {
			checkWhole(t, rec.Events)
		}
		_, _ = provider(c).Models(t.Context())
	}
}

// Canned returns a transport that answers every request with the same data.
func Canned(kind string, data []byte) http.RoundTripper { return canned{kind, data} }

// canned is the transport of [Canned].
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
