package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/llm/approval"
)

func TestWebhooksAreNotAWayIntoTheOwnNetwork(t *testing.T) {
	t.Parallel()
	reached := 0
	desk := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer desk.Close()
	for _, allowed := range []bool{false, true} {
		transport := approval.Transport(egress.Guard{AllowPrivate: allowed}.Control)
		r, err := (&http.Client{Transport: transport}).Post(desk.URL, "application/json", strings.NewReader("{}"))
		if err == nil {
			_ = r.Body.Close()
		}
		transport.CloseIdleConnections()
		if (err == nil) != allowed || (reached == 1) != allowed {
			t.Errorf("allowed %v: reached %d times, %v", allowed, reached, err)
		}
	}
}
