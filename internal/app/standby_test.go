package app_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/protocol"
)

// A starting bridge may take long to start.
type starting struct {
	http, mqtt string
	bridge     chan *app.App
	ended      chan error
	stop       func()
}

// begin starts a bridge without waiting for it.
func begin(t *testing.T, url string) *starting {
	t.Helper()
	config := app.DefaultConfig()
	config.Data, config.Dev, config.ID, config.NATS.URL = t.TempDir(), true, "second", url
	config.HTTP, config.MQTT.Address, config.WS, config.MQTTS = free(t), free(t), "127.0.0.1:0", "off"
	ctx, stop := context.WithCancel(context.Background())
	s := &starting{http: config.HTTP, mqtt: config.MQTT.Address, bridge: make(chan *app.App, 1), ended: make(chan error, 1), stop: stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		bridge, err := app.New(ctx, config, app.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil))))
		if err != nil {
			s.ended <- err
			return
		}
		s.bridge <- bridge
		s.ended <- bridge.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// free is an address that nobody listens on. It is not of the host that other
// tests listen at, which might be given the same port meanwhile.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil { // the system has only one
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// says waits until /readyz answers with a status and a text.
func (s *starting) says(t *testing.T, status int, text string) {
	t.Helper()
	client := bridgetest.HTTPClient(t)
	eventually.Holds(t, "that /readyz says "+text, func() bool {
		got, body := 0, ""
		if request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.http+"/readyz", nil); err == nil {
			if response, err := client.Do(request); err == nil {
				buffer := make([]byte, 4096)
				n, _ := response.Body.Read(buffer)
				response.Body.Close()
				got, body = response.StatusCode, string(buffer[:n])
			}
		}
		return got == status && strings.Contains(body, text)
	})
}

// refuses fails unless nobody listens for MQTT.
func (s *starting) refuses(t *testing.T) {
	t.Helper()
	if c, err := net.Dial("tcp", s.mqtt); err == nil {
		c.Close()
		t.Error("a bridge that does not work listens for MQTT")
	}
}

func TestASecondBridgeWaitsAndTakesOver(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	first := bridgetest.Start(t, func(c *app.Config) { c.NATS.URL, c.ID = url, "first" })
	must(t, first.Caller(t, "caller"), "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	second := begin(t, url)
	second.says(t, http.StatusServiceUnavailable, `\"first\" serves`)
	second.refuses(t)
	if status, body := ask(t, http.MethodGet, "http://"+second.http+"/healthz"); status != http.StatusOK {
		t.Errorf("a standby is not alive: %d %s", status, body)
	}
	readiness(t, first, http.StatusOK, "ready")

	first.Stop(t)
	began := time.Now()
	<-second.bridge
	second.says(t, http.StatusOK, "ready")
	t.Logf("took over after %v", time.Since(began))
	node := &bridgetest.Node{Addresses: listen.Addresses{MQTT: second.mqtt, HTTP: second.http}}
	must(t, node.Caller(t, "caller"), "agent.get", `{"agent_id":"lamp"}`)
}

func TestAStandbyEndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	bridgetest.Start(t, func(c *app.Config) { c.NATS.URL, c.ID = url, "first" })
	second := begin(t, url)
	second.says(t, http.StatusServiceUnavailable, "standby")
	second.stop()
	if err := <-second.ended; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Error(err)
	}
}

// TestABridgeThatIsDeclaredDeadEnds has another say of it what is said of one
// that was suspended.
func TestABridgeThatIsDeclaredDeadEnds(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	only := begin(t, url)
	<-only.bridge
	only.says(t, http.StatusOK, "ready")
	verdict(t, url, "second")
	err := <-only.ended
	if protocol.CodeOf(err) != protocol.StoreUnavailable || !strings.Contains(err.Error(), `declared dead by bridge "observer"`) {
		t.Error(err)
	}
}

func TestABridgeWaitsForNATS(t *testing.T) {
	t.Parallel()
	address := free(t)
	waiting := begin(t, "nats://"+address)
	waiting.says(t, http.StatusServiceUnavailable, "waits for NATS")
	waiting.refuses(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: number, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	<-waiting.bridge
	waiting.says(t, http.StatusOK, "ready")
}
