package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompressedRequestsAreRead(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	_, server := serve(t, Options{Limits: protocol.Limits{MaxBytes: limit}})
	whole := zip(t, `{"text":"hi"}`)
	for name, c := range map[string]struct {
		body   string
		status int
		code   protocol.Code
	}{
		"params":              {whole, 200, ""},
		"as large as allowed": {zip(t, `{"text":"hi"}`+strings.Repeat(" ", limit-len(`{"text":"hi"}`))), 200, ""},
		"a byte too large":    {zip(t, `{"text":"hi"}`+strings.Repeat(" ", limit+1-len(`{"text":"hi"}`))), 413, protocol.PayloadTooLarge},
		"a bomb":              {zip(t, strings.Repeat(" ", 100*limit)), 413, protocol.PayloadTooLarge},
		"cut off":             {whole[:len(whole)-9], 400, protocol.MalformedEnvelope},
		"a wrong checksum":    {whole[:len(whole)-8] + "XXXX" + whole[len(whole)-4:], 400, protocol.MalformedEnvelope},
		"plain":               {`{"text":"hi"}`, 400, protocol.MalformedEnvelope},
		"empty":               {"", 400, protocol.MalformedEnvelope},
	} {
		got := do(t, server, http.MethodPost, "/api/v1/commands/test.echo", c.body, "Content-Encoding", "gzip")
		if got.status != c.status || !strings.Contains(got.body, string(c.code)) {
			t.Errorf("%s: %d %s, want %d %s", name, got.status, got.body, c.status, c.code)
		}
	}
}

func TestLargeAnswersAreCompressedForThoseWhoTakeIt(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{})
	get := func(path, accept string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accept)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, body
	}
	plain, want := get("/openapi.json", "identity")
	packed, body := get("/openapi.json", "gzip")
	if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encodings: %q, %q", plain.Header.Get("Content-Encoding"), packed.Header.Get("Content-Encoding"))
	}
	if packed.Header.Get("Vary") != "Accept-Encoding" || !strings.HasPrefix(packed.Header.Get("Etag"), "W/") {
		t.Errorf("caches would mix them up: %v", packed.Header)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(zipped); err != nil || !bytes.Equal(got, want) {
		t.Errorf("unpacked it differs: %v", err)
	}
	if small, _ := get("/healthz", "gzip"); small.Header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
}

// A heldRouter answers when it is let go.
type heldRouter struct {
	scripted
	letGo chan struct{}
}

func (h *heldRouter) Handle(ctx context.Context, in commands.Inbound) *protocol.Response {
	select {
	case <-h.letGo:
	case <-ctx.Done():
	}
	return h.scripted.Handle(ctx, in)
}

func (h *heldRouter) Await(ctx context.Context, in commands.Inbound, take func(*protocol.Response)) {
	take(h.Handle(ctx, in))
}

// The head of a stream must not wait for something to compress.
func TestStreamsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"gzip", "identity"} {
		router := &heldRouter{letGo: make(chan struct{})}
		_, server := serve(t, Options{Router: router})
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/api/v1/commands/test.echo", strings.NewReader(`{"text":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept-Encoding": accept, "Accept": "text/event-stream"} {
			r.Header.Set(name, value)
		}
		resp, err := server.Client().Do(r) // returns with the head
		if err != nil {
			t.Fatal(err)
		}
		close(router.letGo)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.Header.Get("Content-Encoding") != "" || !bytes.HasPrefix(body, []byte("event: ")) {
			t.Errorf("%s: %v %s %v", accept, resp.Header, body, err)
		}
	}
}
