package app_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A lockedLog is written by a bridge and read by a test.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A stopping bridge answers what it cuts off, over every door, names it in the
// log, and ends well.
func TestCallsThatTakeTooLongAreCutOffAndNamed(t *testing.T) {
	log := new(lockedLog)
	n := bridgetest.StartWith(t, []app.Option{app.WithLogger(slog.New(slog.NewTextHandler(log, nil)))}, func(c *app.Config) { c.Drain = 0 })
	device := n.Device(t, "lamp", "lamp", `["switch"]`)
	caller := n.Caller(t, "caller")
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("slow-one", "skill.invoke", invokeLamp))
	device.Invocation(t)
	overHTTP := make(chan string, 1)
	go func() {
		status, body := post(t, n.HTTPURL("/api/v1/commands/skill.invoke"), invokeLamp, "X-Request-ID", "slow-two")
		overHTTP <- http.StatusText(status) + " " + string(body)
	}()
	device.Invocation(t)

	n.Stop(t) // fails if it ends with an error
	if answer := caller.Answer(t); answer.Err == nil || answer.Err.Code != protocol.ShuttingDown {
		t.Errorf("over MQTT: %v", answer.Err)
	}
	if answer := <-overHTTP; !strings.Contains(answer, `"5002"`) {
		t.Errorf("over HTTP: %s", answer)
	}
	for _, want := range []string{"calls=2", `skill.invoke \"slow-one\"`} {
		if !strings.Contains(strings.ReplaceAll(log.String(), `\\\"`, `\"`), want) {
			t.Errorf("the log does not have %s:\n%s", want, log)
		}
	}
}

// A stopping bridge waits for calls, and what they need goes on meanwhile.
func TestCallsInFlightHaveTimeToEnd(t *testing.T) {
	n := bridgetest.Start(t, func(c *app.Config) { c.Drain = 60 })
	device := n.Device(t, "lamp", "lamp", `["switch"]`)
	caller := n.Caller(t, "caller")
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("slow", "skill.invoke", invokeLamp))
	asked := device.Invocation(t)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.Stop(t)
	}()
	eventually.Holds(t, "that the bridge takes no more calls", func() bool {
		refused := caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.list", `{}`))
		return refused.Err != nil && refused.Err.Code == protocol.ShuttingDown
	})
	device.Reply(t, "lamp", asked, map[string]bool{"on": true})
	if answer := caller.Answer(t); answer.Err != nil {
		t.Error(answer.Err)
	}
	<-stopped
}

// A client of MCP that listens does not hold up the stop.
func TestListeningStreamsEndWhenTheBridgeStops(t *testing.T) {
	n := bridgetest.Start(t, func(c *app.Config) { c.Drain = 3600 })
	client := bridgetest.HTTPClient(t)
	mcp := func(method, session, body string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), method, n.HTTPURL("/mcp"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("Mcp-Session-Id", session)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	opened := mcp(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	opened.Body.Close()
	stream := mcp(http.MethodGet, opened.Header.Get("Mcp-Session-Id"), "")
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream is answered %s", stream.Status)
	}
	n.Stop(t)
}
