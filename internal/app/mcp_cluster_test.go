package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestAnMCPSessionBeginsAnewAtAnotherBridge has a client with a session at a bridge that is
// then declared dead. Another one says 404 to whatever it sends in that session, and to a
// stream that is to go on, which is where clients begin a new one; and it lets them.
func TestAnMCPSessionBeginsAnewAtAnotherBridge(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	const hello = `"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	session := saysMCP(t, n[0], http.MethodPost, hello, http.StatusOK).Get("Mcp-Session-Id")
	in := []string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"}
	saysMCP(t, n[0], http.MethodPost, `"tools/list"`, http.StatusOK, in...)

	verdict(t, url, "a")
	_ = n[0].Ended(t)
	saysMCP(t, n[1], http.MethodPost, `"tools/list"`, http.StatusNotFound, in...)
	saysMCP(t, n[1], http.MethodGet, "", http.StatusNotFound, append(in, "Last-Event-ID", "stream_3")...)
	saysMCP(t, n[1], http.MethodDelete, "", http.StatusNotFound, in...)
	in[1] = saysMCP(t, n[1], http.MethodPost, hello, http.StatusOK).Get("Mcp-Session-Id")
	if in[1] == "" || in[1] == session {
		t.Errorf("the new session is %q, the one before was %q", in[1], session)
	}
	saysMCP(t, n[1], http.MethodPost, `"tools/list"`, http.StatusOK, in...)
	saysMCP(t, n[2], http.MethodPost, `"tools/list"`, http.StatusNotFound, in...)
}

// saysMCP sends a message to a bridge, by its method and params, and wants a status, with a
// JSON-RPC error where that is one.
func saysMCP(t *testing.T, n *bridgetest.Node, verb, message string, want int, headers ...string) http.Header {
	t.Helper()
	body := ""
	if message != "" {
		body = `{"jsonrpc":"2.0","id":1,"method":` + message + `}`
	}
	r, err := http.NewRequestWithContext(t.Context(), verb, n.HTTPURL("/mcp"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := bridgetest.HTTPClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var failure struct {
		Error struct{ Code int }
	}
	if response.StatusCode != want || want >= 400 && (json.Unmarshal(text, &failure) != nil || failure.Error.Code == 0) {
		t.Fatalf("%s %s at %s: %d, want %d: %s", verb, message, n.Config.ID, response.StatusCode, want, text)
	}
	return response.Header
}
