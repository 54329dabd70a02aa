package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// mcpServer has the bridge be a server of MCP over MQTT.
func mcpServer(c *app.Config) { c.ID, c.MCP.MQTT = "home", "aibridge" }

// An mqttMCP plays a client of MCP over MQTT, written from EMQX's specification.
type mqttMCP struct {
	*bridgetest.Raw
	id int
}

// finds has a client look for the bridge, and listen to it.
func finds(t *testing.T, c *bridgetest.Raw) *mqttMCP {
	t.Helper()
	c.Listen(t, "$mcp-server/presence/+/#")
	p := c.Next(t)
	var note mcpRequest
	if err := json.Unmarshal(p.Payload, &note); err != nil || p.Topic != "$mcp-server/presence/aibridge/aibridge" || !p.Retain || note.Method != "notifications/server/online" {
		t.Fatalf("the bridge's presence: %s %s", p.Topic, p.Payload)
	}
	c.Listen(t, "$mcp-server/capability/aibridge/aibridge", "$mcp-rpc/"+c.ID+"/aibridge/aibridge")
	return &mqttMCP{Raw: c}
}

func (c *mqttMCP) rpc() string { return "$mcp-rpc/" + c.ID + "/aibridge/aibridge" }

// tells publishes, and returns the reason code.
func (c *mqttMCP) tells(t *testing.T, topic, text string) byte {
	t.Helper()
	return toldBy(t, c.Raw, &paho.Publish{Topic: topic, Payload: []byte(text), Properties: &paho.PublishProperties{
		User: paho.UserProperties{{Key: "MCP-COMPONENT-TYPE", Value: "mcp-client"}, {Key: "MCP-MQTT-CLIENT-ID", Value: c.ID}},
	}})
}

type mcpAnswer struct {
	mcpRequest
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// hears is the next message on the RPC topic.
func (c *mqttMCP) hears(t *testing.T) mcpAnswer {
	t.Helper()
	p := c.Next(t)
	var a mcpAnswer
	if err := json.Unmarshal(p.Payload, &a); err != nil || p.Topic != c.rpc() {
		t.Fatalf("%s %s", p.Topic, p.Payload)
	}
	if p.QoS != 1 || p.Properties.User.Get("MCP-COMPONENT-TYPE") != "mcp-server" || p.Properties.User.Get("MCP-MQTT-CLIENT-ID") != "aibridge" {
		t.Errorf("QoS %d, %v", p.QoS, p.Properties.User)
	}
	return a
}

// asks sends a request and returns its answer.
func (c *mqttMCP) asks(t *testing.T, topic, method, params string) mcpAnswer {
	t.Helper()
	c.id++
	if reason := c.tells(t, topic, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params)); reason >= 0x80 {
		t.Fatalf("%s is refused: %#x", method, reason)
	}
	a := c.hears(t)
	if string(a.ID) != fmt.Sprint(c.id) {
		t.Fatalf("another answer to %s: %+v", method, a)
	}
	return a
}

// initializes begins a session.
func (c *mqttMCP) initializes(t *testing.T) {
	t.Helper()
	a := c.asks(t, "$mcp-server/aibridge/aibridge", "initialize", `{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"esp","version":"1"}}`)
	if a.Error != nil || !strings.Contains(string(a.Result), `"protocolVersion":"2025-03-26"`) || !strings.Contains(string(a.Result), `"serverInfo"`) {
		t.Fatalf("initialize: %s %+v", a.Result, a.Error)
	}
	c.tells(t, c.rpc(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestTheBridgeIsAnMCPServerOverMQTT(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, mcpServer)
	heater(t, n, client.WithAPIKey(keyFor(t, admin, `{"principal_id":"heater-1"}`)))
	key := keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`)
	c := finds(t, n.Connect(t, "esp-7", withPassword("apikey", key)))
	if reason := c.tells(t, c.rpc(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); reason < 0x80 {
		t.Errorf("without a session: %#x", reason)
	}
	if a := c.hears(t); a.Method != "notifications/disconnected" {
		t.Errorf("without a session: %+v", a)
	}
	for _, text := range []string{`nonsense`, `[]`, ``, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`} {
		if reason := c.tells(t, "$mcp-server/aibridge/aibridge", text); reason < 0x80 {
			t.Errorf("a session begins with %q: %#x", text, reason)
		}
	}
	if reason := c.tells(t, "$mcp-server/aibridge/other", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`); reason < 0x80 {
		t.Errorf("another name: %#x", reason)
	}
	c.initializes(t)
	if a := c.asks(t, c.rpc(), "ping", `{}`); a.Error != nil {
		t.Errorf("ping: %+v", a.Error)
	}
	if a := c.asks(t, c.rpc(), "tools/list", `{}`); !strings.Contains(string(a.Result), `"heater.set"`) {
		t.Errorf("tools: %.300s %+v", a.Result, a.Error)
	}
	if a := c.asks(t, c.rpc(), "tools/call", `{"name":"heater.set","arguments":{"celsius":20}}`); a.Error != nil || strings.Contains(string(a.Result), `"isError":true`) {
		t.Errorf("the call: %s %+v", a.Result, a.Error)
	}
	if a := c.asks(t, c.rpc(), "no/such", `{}`); a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("no such method: %s %+v", a.Result, a.Error)
	}
	if reason := c.tells(t, c.rpc(), `nonsense`); reason != 0x99 {
		t.Errorf("no JSON: %#x", reason)
	}
	other := n.Connect(t, "esp-8", withPassword("apikey", key))
	if reason := toldBy(t, other, &paho.Publish{Topic: c.rpc(), Payload: []byte(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)}); reason != 0x87 {
		t.Errorf("another client's session: %#x", reason)
	}

	c.tells(t, "$mcp-client/presence/esp-7", `{"jsonrpc":"2.0","method":"notifications/disconnected"}`)
	c.tells(t, c.rpc(), `{"jsonrpc":"2.0","id":50,"method":"ping"}`)
	if a := c.hears(t); a.Method != "notifications/disconnected" {
		t.Errorf("after the session: %+v", a)
	}
	c.initializes(t)
	c.tells(t, c.rpc(), `{"jsonrpc":"2.0","method":"notifications/disconnected"}`)
	c.tells(t, c.rpc(), `{"jsonrpc":"2.0","id":51,"method":"ping"}`)
	if a := c.hears(t); a.Method != "notifications/disconnected" {
		t.Errorf("after the second session: %+v", a)
	}
}

func TestClientsOverMQTTHearThatToolsHaveChanged(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, mcpServer)
	c := finds(t, n.Connect(t, "esp-7"))
	c.initializes(t)
	if a := c.asks(t, c.rpc(), "tools/list", `{}`); strings.Contains(string(a.Result), `"heater.set"`) {
		t.Fatalf("tools: %s", a.Result)
	}
	heater(t, n)
	for {
		p := c.Next(t)
		if p.Topic == "$mcp-server/capability/aibridge/aibridge" && strings.Contains(string(p.Payload), "notifications/tools/list_changed") {
			break
		}
	}
	p := &paho.Publish{Topic: "$mcp-server/capability/aibridge/aibridge", Payload: []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)}
	if reason := toldBy(t, n.Connect(t, "aibridge"), p); reason != 0x87 {
		t.Errorf("somebody speaks for the bridge: %#x", reason)
	}
}

// TestProgramsOfMCPAreToldWhatIsMeantForThem connects servers and clients of MCP, and
// looks at the CONNACK.
func TestProgramsOfMCPAreToldWhatIsMeantForThem(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, func(c *app.Config) {
		c.MCP.Devices.On = true
		c.MCP.Suggestions = []mcpdoor.Suggestion{
			{Principal: "lamp", Name: "home/lamp"},
			{Space: "east", Filters: []string{"home/#", "<plant>/+"}, Roles: map[string]string{"home/lamp": "viewer", "home/fan": "owner"}},
		}
	})
	is := func(component string) func(*paho.Connect) {
		return func(c *paho.Connect) {
			if component != "" {
				c.Properties = &paho.ConnectProperties{User: paho.UserProperties{{Key: "MCP-COMPONENT-TYPE", Value: component}, {Key: "MCP-META", Value: "{}"}}}
			}
		}
	}
	for _, c := range []struct {
		id, space, component, want string
	}{
		{"lamp", "east", "mcp-server", "MCP-SERVER-NAME=home/lamp"},
		{"lamp", "east", "mcp-client", `MCP-SERVER-NAME-FILTERS=["home/#","<plant>/+"] MCP-RBAC=[{"server_name":"home/fan","role_name":"owner"},{"server_name":"home/lamp","role_name":"viewer"}]`},
		{"lamp", "west", "mcp-client", ""},
		{"fan", "east", "mcp-server", ""},
		{"lamp", "east", "", ""},
		{"lamp", "east", "mcp-other", ""},
	} {
		key := keyFor(t, admin, fmt.Sprintf(`{"principal_id":%q,"space_id":%q}`, c.id, c.space))
		client := n.Connect(t, c.id, withPassword("apikey", key), is(c.component))
		var told []string
		for _, u := range client.Connack.Properties.User {
			told = append(told, u.Key+"="+u.Value)
		}
		if got := strings.Join(told, " "); got != c.want {
			t.Errorf("%+v is told %s", c, got)
		}
	}
	small := func(c *paho.Connect) {
		most := uint32(100)
		c.Properties.MaximumPacketSize = &most
	}
	client := n.Connect(t, "tiny", withPassword("apikey", keyFor(t, admin, `{"principal_id":"tiny","space_id":"east"}`)), is("mcp-client"), small)
	if p := client.Connack.Properties; len(p.User) != 0 || p.ReceiveMaximum == nil {
		t.Errorf("a client of small packets is told %+v", p)
	}
}
