package app_test

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClientOfThisMachineComesByAUnixSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of sockets are short there")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.sock")
	h := newHouse(t, func(c *app.Config) { c.MQTT.Unix = path })
	lamp := h.key(protocol.KindAgent, "lamp", "end_agent")
	if _, err := bridgetest.ConnectOver(t, dial(t, "unix", path), "nobody"); err == nil {
		t.Error("a client without a credential is let in")
	}
	r, err := bridgetest.ConnectOver(t, dial(t, "unix", path), "lamp", withPassword("apikey", lamp))
	if err != nil {
		t.Fatal(err)
	}
	r.Listen(t, "aibridge/client/lamp/response")
	if answer := h.ask(r, "agent.list", `{}`); answer.Err != nil {
		t.Errorf("over the socket: %v", answer.Err)
	}
	if shown := h.must("session.get", `{"client_id":"lamp"}`); !strings.Contains(shown, `"listener":"unix"`) {
		t.Errorf("the session is %s", shown)
	}
}

// TestTheAddressBehindAProxyIsTheClients sees it in the audit trail, and that it
// alone is slowed down when somebody tries keys from there.
func TestTheAddressBehindAProxyIsTheClients(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) {
		c.ProxyProtocol.Listeners, c.ProxyProtocol.Trusted = []string{"mqtt", "http"}, []string{"127.0.0.1"}
		c.HTTP, c.WS = "127.0.0.1:0", "127.0.0.1:0"
	})
	behind := func(from string) net.Conn {
		c := dial(t, "tcp", h.MQTT)
		if _, err := fmt.Fprintf(c, "PROXY TCP4 %s 192.0.2.1 4711 1883\r\n", from); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if _, err := bridgetest.ConnectOver(t, behind("192.0.2.7"), "thief", withPassword("apikey", "aib_wrong")); err == nil {
		t.Fatal("a wrong key is let in")
	}
	if _, err := bridgetest.ConnectOver(t, behind("192.0.2.8"), "administrator", withPassword("apikey", h.admin)); err != nil {
		t.Fatal(err)
	}
	if _, err := bridgetest.ConnectOver(t, dial(t, "tcp", h.MQTT), "unannounced", withPassword("apikey", h.admin)); err == nil {
		t.Error("a proxy that does not say where a connection comes from is served")
	}
	r, err := bridgetest.ConnectOver(t, behind("192.0.2.9"), "reader", withPassword("apikey", h.admin))
	if err != nil {
		t.Fatal(err)
	}
	r.Listen(t, "aibridge/client/reader/response")
	var trail string
	eventually.Holds(t, "the audit trail has the addresses of the clients", func() bool {
		answer := h.ask(r, "audit.query", `{"limit":100}`)
		if answer.Err != nil {
			t.Fatal(answer.Err)
		}
		trail = string(answer.Result)
		return strings.Contains(trail, "192.0.2.7") && strings.Contains(trail, "192.0.2.8")
	}, &trail)
}
