package ask

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestTheEnvironmentsProxyIsNotAsked(t *testing.T) {
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	w := newHTTPClient(false, protocol.Limits{})
	defer w.close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := w.post(ctx, httpRequest{endpoint: "http://skill.invalid/", envelope: []byte("{}")}, func(httpAnswer) {}); err == nil {
		t.Error("a name that does not exist answered")
	}
	if asked.Load() != 0 {
		t.Error("the proxy was asked")
	}
}
