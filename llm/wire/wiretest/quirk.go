package wiretest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// A Maker returns a provider with a client.
type Maker func(*wire.Client) chat.Provider

// A quirk is a recorded answer of a service: NAME.sse is a stream, NAME.json an answer in
// one piece, of the status that its name begins with or of 200.
type quirk struct {
	name   string
	status int
	kind   string
	body   []byte
}

// quirks reads the corpus of a wire.
func quirks(t testing.TB) (list []quirk) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "quirks", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name, ext, _ := strings.Cut(filepath.Base(path), ".")
		q := quirk{name: name, status: http.StatusOK}
		switch ext {
		case "sse":
			q.kind = "text/event-stream"
		case "json":
			q.kind = "application/json"
		default:
			continue
		}
		if q.body, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(name, "-")
		if status, err := strconv.Atoi(head); err == nil {
			q.status = status
		}
		list = append(list, q)
	}
	if len(list) == 0 {
		t.Fatal("there is no corpus")
	}
	return list
}

// RoundTrip answers with the recording, byte by byte.
func (q quirk) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: q.status, Header: http.Header{"Content-Type": {q.kind}},
		Body: io.NopCloser(iotest.OneByteReader(bytes.NewReader(q.body))),
	}, nil
}

// heard is the outcome of a recording: its events and its error.
type heard struct {
	Recorder
	err error
}

func (q quirk) play(t testing.TB, provider Maker, r *chat.Request) (h heard) {
	h.err = provider(&wire.Client{HTTP: &http.Client{Transport: q}, BaseURL: "http://canned", Secrets: []string{"sk-secret-key"}}).Stream(t.Context(), r, h.Emit)
	checkClean(t, h.Events)
	if h.err == nil {
		checkWhole(t, h.Events)
	}
	return h
}

// Quirks plays recorded answers of services, and compares the decoded events with
// NAME.txt. Then each recording is cut after every one of its bytes: the events of the
// cut must be a beginning of those of the whole, and are taken for an answer only if
// nothing is missing.
func Quirks(t *testing.T, provider Maker, r *chat.Request) {
	for _, q := range quirks(t) {
		t.Run(q.name, func(t *testing.T) {
			whole := q.play(t, provider, r)
			told := made.ReplaceAllString(Tell(whole.Events, whole.err), "<made>")
			Golden(t, filepath.Join("quirks", q.name+".txt"), told)
			for n := range q.body {
				cut := q
				cut.body = q.body[:n]
				checkCut(t, n, cut.play(t, provider, r), whole)
			}
		})
	}
}

// checkCut compares the events of a recording cut after n bytes with those of the whole
// one.
func checkCut(t *testing.T, n int, cut, whole heard) {
	t.Helper()
	if said, all := spoken(cut.Events), spoken(whole.Events); !strings.HasPrefix(all, said) {
		t.Errorf("cut after %d bytes it says %q, which does not begin %q", n, said, all)
	}
	ended, all := callsOf(cut.Events), callsOf(whole.Events)
	if len(ended) > len(all) || !slices.Equal(ended, all[:len(ended)]) {
		t.Errorf("cut after %d bytes it calls %v, not %v", n, ended, all)
	}
	if cut.err == nil && (whole.err != nil || spoken(cut.Events) != spoken(whole.Events) || len(ended) != len(all)) {
		t.Errorf("cut after %d bytes it is taken for an answer: %s", n, Tell(cut.Events, nil))
	}
}

// spoken is the text and the reasoning, in order of the segments.
func spoken(events []chat.Event) string {
	var text, thought strings.Builder
	for _, e := range events {
		switch e.Type {
		case chat.TextDelta:
			text.WriteString(e.Text)
		case chat.ReasoningDelta:
			thought.WriteString(e.Text)
		}
	}
	return strings.TrimRight(text.String(), "\ufffd") // half a character at the cut
}

// callsOf are the calls that ended, without their ids, which may be new each time.
func callsOf(events []chat.Event) (list []string) {
	for _, e := range events {
		if e.Type == chat.ToolCallEnd {
			list = append(list, e.Call.Name+" "+wire.Arguments(e.Call))
		}
	}
	return list
}

// checkClean checks that events can be passed on: that they hold only valid text and
// JSON, and no call without a name.
func checkClean(t testing.TB, events []chat.Event) {
	t.Helper()
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil || !utf8.Valid(raw) || !utf8.ValidString(e.Text) {
			t.Errorf("%+v cannot be told: %v", e, err)
		}
		opaque := e.Opaque
		if e.Segment != nil && e.Segment.Opaque != nil {
			opaque = e.Segment.Opaque
		}
		if opaque != nil && len(opaque.Data) > 0 && (!utf8.Valid(opaque.Data) || !json.Valid(opaque.Data)) {
			t.Errorf("%q is kept", opaque.Data)
		}
		if e.Call != nil && e.Call.Name == "" {
			t.Errorf("a call of nothing: %+v", e.Call)
		}
	}
}

// Seeds gives a fuzz test the corpus to begin with.
func Seeds(f *testing.F) {
	for _, q := range quirks(f) {
		f.Add(q.body)
		f.Add(q.body[:len(q.body)*2/3])
	}
}
