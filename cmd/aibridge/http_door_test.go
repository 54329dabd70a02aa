package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStatusOfAClusterAsksOverHTTP asks a bridge that has no other door than HTTP, by its
// address.
func TestStatusOfAClusterAsksOverHTTP(t *testing.T) {
	asked := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		if r.URL.Path != "/api/v1/commands/bridge.cluster" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"bridge_id":"b1","members":[{"id":"b1","epoch":7,"state":"working","ready":false,"why":"it waits"}]}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AIBRIDGE_API_KEY", "secret")
	cmd := root()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"cluster", "status", "--url", server.URL})
	if err := cmd.Execute(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "no: it waits") {
		t.Errorf("shown: %s", out.String())
	}
	if got := <-asked; got != "/api/v1/commands/bridge.cluster Bearer secret {}" {
		t.Errorf("asked: %s", got)
	}
}
