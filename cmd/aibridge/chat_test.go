package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestChatSaysThatNoToolFits talks with a model and patterns that mean nothing.
func TestChatSaysThatNoToolFits(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	defer model.Close()
	bridge := startBinary(t, t.TempDir(), "--dev", "--llm-base-url", model.URL+"/v1", "--llm-model", "m-1")
	out, stderr, code := run(t, bridge, "chat", "--tools", "thermostats.*", "Hello?")
	if code != 0 || !strings.Contains(out, "Hello.") || !strings.Contains(stderr, `no tool fits "thermostats.*"`) {
		t.Errorf("%d %s\n%s\n%s", code, out, stderr, bridge.log)
	}
}
