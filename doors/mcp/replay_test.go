package mcp_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// until reads events of a stream until one has a text, and returns their ids.
func until(t *testing.T, body io.Reader, text string) (ids []string) {
	t.Helper()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			ids = append(ids, id)
		}
		if strings.Contains(lines.Text(), text) {
			return ids
		}
	}
	t.Fatalf("the stream ended without %q, after %q: %v", text, ids, lines.Err())
	return nil
}

// stream begins a request whose answer is a stream.
func (c *raw) stream(method, body string, headers ...string) io.Reader {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.who)
	for key, value := range c.headers {
		r.Header.Set(key, value)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return strings.NewReader(response.Status + " " + string(text))
	}
	return response.Body
}

const lookAndTell = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"camera.look","arguments":{},"_meta":{"progressToken":"p"}}}`

// A client whose stream broke is sent what came after the event that it has, in its own
// session alone.
func TestAStreamThatBrokeGoesOn(t *testing.T) {
	w := newWorld(t)
	c := w.open(t, "ada")
	ids := until(t, c.stream("POST", lookAndTell), "a cat")
	if len(ids) < 2 {
		t.Fatalf("events %q: none before the answer", ids)
	}
	var resumed io.Reader
	eventually.Holds(t, "the stream that broke has ended", func() bool {
		response := c.stream("GET", "", "Last-Event-ID", ids[0])
		refusal, refused := response.(*strings.Reader)
		resumed = response
		return !refused || refusal.Len() == 0
	})
	again := until(t, resumed, "a cat")
	if len(again) != len(ids)-1 || again[0] != ids[1] {
		t.Errorf("sent again %q, of %q", again, ids)
	}
	other := w.open(t, "ada")
	text, err := io.ReadAll(other.stream("GET", "", "Last-Event-ID", ids[0]))
	if err != nil || strings.Contains(string(text), "a cat") || strings.HasPrefix(string(text), "id:") {
		t.Errorf("another session is sent %q, %v", text, err)
	}
}
