package app_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// Far more silent sockets than there may be connections, by every door, keep
// neither the administrator nor a device out, by none.
func TestSilentSocketsShutNobodyOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) { c.Limits.Connections, c.Limits.Unauthenticated = 200, 60 })
	lamp := h.key(protocol.KindAgent, "lamp", "end_agent")
	resident := h.connect("resident", lamp)
	doors := []string{h.MQTT, h.MQTTS, h.HTTP, h.WS}
	for i := range 1300 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", doors[i%len(doors)])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	eventually.Holds(t, "the administrator gets in over HTTP", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.HTTPURL("/api/v1/commands/agent.list"), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Api-Key", h.admin)
		request.Header.Set("Content-Type", "application/json")
		response, err := fresh.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	eventually.Holds(t, "the administrator gets in over MQTT", func() bool {
		_, err := h.TryConnect(t, "administrator", withPassword("apikey", h.admin))
		return err == nil
	})
	eventually.Holds(t, "a device gets in", func() bool {
		_, err := h.TryConnect(t, "lamp", withPassword("apikey", lamp))
		return err == nil
	})
	if answer := h.ask(resident, "agent.list", `{}`); answer.Err != nil {
		t.Errorf("who was there before: %v", answer.Err)
	}
	if n := h.metric(`aibridge_connections_open{state="stranger"}`); n > 60 {
		t.Errorf("%v strangers are connected", n)
	}
	eventually.Holds(t, "most were turned away", func() bool {
		return h.metric(`aibridge_connections_refused_total{how="turned_away"}`)+h.metric(`aibridge_connections_refused_total{how="cut_off"}`) >= 1000
	})
}

// Requests by one connection are of one visit, which takes a principal's place.
func TestConnectionsThatShowACredentialAreKnown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	before := h.metric(`aibridge_connections_open{state="known"}`) // of this request, too
	for _, id := range []string{"a", "b", "c"} {
		h.connect(id, h.key(protocol.KindAgent, id, "end_agent"))
	}
	if n := h.metric(`aibridge_connections_open{state="known"}`); n < before+3 {
		t.Errorf("%v connections are known, want 3 more than %v", n, before)
	}
	if n := h.metric(`aibridge_connections_open{state="stranger"}`); n > 0 {
		t.Errorf("%v connections are of strangers", n)
	}
}
