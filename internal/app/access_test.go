package app_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// closed is a bridge as it is without --dev.
func closed(t *testing.T, change ...func(*app.Config)) (n *bridgetest.Node, key string) {
	t.Helper()
	n = bridgetest.Start(t, append(change, func(c *app.Config) { c.Dev = false })...)
	data, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return n, strings.TrimSpace(string(data))
}

func withPassword(user, password string) func(*paho.Connect) {
	return func(c *paho.Connect) {
		c.UsernameFlag, c.Username = true, user
		c.PasswordFlag, c.Password = true, []byte(password)
	}
}

func TestWithoutDevNobodyGetsInWithoutAKey(t *testing.T) {
	t.Parallel()
	n, key := closed(t)
	for name, change := range map[string]func(*paho.Connect){
		"nothing shown":       func(*paho.Connect) {},
		"a wrong key":         withPassword("apikey", key[:len(key)-1]+"x"),
		"the key as the user": withPassword(key, ""),
		"a user name alone":   withPassword("admin", ""),
		"a password":          withPassword("admin", "admin"),
	} {
		if _, err := n.TryConnect(t, "intruder", change); err == nil {
			t.Errorf("%s: let in over MQTT", name)
		}
	}
	for name, header := range map[string][]string{
		"nothing shown": nil,
		"a wrong key":   {"X-API-Key", "abk_0000000000000000." + strings.Repeat("A", 43)},
		"basic":         {"Authorization", "Basic " + key},
	} {
		status, body := post(t, n.HTTPURL("/api/v1/commands/agent.list"), `{}`, header...)
		if status != http.StatusUnauthorized || strings.Contains(string(body), key) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if _, response, err := websocket.Dial(t.Context(), "ws://"+n.WS+"/ws", &websocket.DialOptions{HTTPClient: bridgetest.HTTPClient(t)}); err == nil || response == nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("WebSocket: %v", err)
	}
}

func TestTheAdministratorsKeyOpensEveryDoor(t *testing.T) {
	t.Parallel()
	n, key := closed(t)
	if answer := n.Caller(t, "admin", withPassword("apikey", key)).Ask(t, bridgetest.Request("1", "agent.list", `{}`)); answer.Err != nil {
		t.Errorf("MQTT: %v", answer.Err)
	}
	if _, err := client.Call[map[string]any](t.Context(), n.Dial(t, client.WithAPIKey(key)), "agent.list", nil); err != nil {
		t.Errorf("SDK: %v", err)
	}
	for _, header := range [][]string{{"X-API-Key", key}, {"Authorization", "Bearer " + key}} {
		if status, body := post(t, n.HTTPURL("/api/v1/commands/agent.list"), `{}`, header...); status != http.StatusOK {
			t.Errorf("%s: %d %s", header[0], status, body)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+n.WS+"/ws", &websocket.DialOptions{
		HTTPClient: bridgetest.HTTPClient(t), HTTPHeader: http.Header{"X-Api-Key": {key}}})
	if err != nil {
		t.Fatalf("WebSocket: %v", err)
	}
	_ = c.CloseNow()
}

func TestWebPagesCannotDriveABridgeOnLoopback(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	url := n.HTTPURL("/api/v1/commands/agent.list")
	for name, test := range map[string]struct {
		header []string
		want   int
	}{
		"a program":                   {nil, http.StatusOK},
		"the bridge's own page":       {[]string{"Origin", "http://" + n.HTTP}, http.StatusOK},
		"another page":                {[]string{"Origin", "http://evil.example"}, http.StatusForbidden},
		"a developer's page":          {[]string{"Origin", "http://localhost:3000"}, http.StatusOK}, // --dev
		"a file":                      {[]string{"Origin", "null"}, http.StatusForbidden},
		"a rebound name":              {[]string{"Host", "evil.example"}, http.StatusForbidden},
		"a form":                      {[]string{"Content-Type", "application/x-www-form-urlencoded"}, http.StatusUnsupportedMediaType},
		"text, which needs no asking": {[]string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
	} {
		if status, body := post(t, url, `{}`, test.header...); status != test.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, test.want)
		}
	}
	for _, path := range []string{"/", "/ws", "/mqtt"} {
		_, response, err := websocket.Dial(t.Context(), "ws://"+n.WS+path, &websocket.DialOptions{
			HTTPClient: bridgetest.HTTPClient(t), Subprotocols: []string{"mqtt"},
			HTTPHeader: http.Header{"Origin": {"http://evil.example"}},
		})
		if err == nil || response == nil || response.StatusCode != http.StatusForbidden {
			t.Errorf("%s from another page: %v", path, err)
		}
	}
}

func TestAnswersGoNowhereTheRequesterMayNotListen(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	caller := n.Caller(t, "caller")
	for _, topic := range []string{"aibridge/agent/x/request", "aibridge/agent/x/card", "aibridge/bridge/request", "$SYS/x"} {
		if _, err := caller.Publish(t.Context(), &paho.Publish{Topic: "aibridge/bridge/request", QoS: 1,
			Payload:    []byte(bridgetest.Request(protocol.NewID(), "agent.register", `{"agent_id":"ghost","type":"end_agent"}`)),
			Properties: &paho.PublishProperties{ResponseTopic: topic}}); err != nil {
			t.Fatal(err)
		}
		if answer := caller.Answer(t); answer.Err == nil || answer.Err.Code != protocol.PermissionDenied {
			t.Errorf("%s: %v", topic, answer.Err)
		}
	}
	if answer := caller.Ask(t, bridgetest.Request("get", "agent.get", `{"agent_id":"ghost"}`)); protocol.CodeOf(errorOf(answer)) != protocol.NotFound {
		t.Error("a refused request was run")
	}
}

func TestOnlyTheBridgeSpeaksOnItsTopics(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	c := n.Caller(t, "liar")
	for _, topic := range []string{"aibridge/agent/x/card", "aibridge/client/liar/response", "aibridge/event/agent", "aibridge/task/t/event"} {
		answer, err := c.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(`{}`)})
		if err == nil || answer == nil || answer.ReasonCode != 0x87 {
			t.Errorf("%s: %+v, %v", topic, answer, err)
		}
	}
}

func TestDevRefusesAnythingButLoopback(t *testing.T) {
	t.Parallel()
	config := app.DefaultConfig()
	config.Data, config.Dev, config.MQTT.Address = t.TempDir(), true, "0.0.0.0:0"
	if _, err := app.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v", err)
	}
}

func TestTwoBridgesDoNotShareADataFolder(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	config := n.Config
	if _, err := app.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}
