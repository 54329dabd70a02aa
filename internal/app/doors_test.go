package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	mqtt3 "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// answerable is the part that all doors must agree about.
type answerable struct {
	SkillID      string          `json:"skill_id"`
	CapabilityID string          `json:"capability_id"`
	AgentID      string          `json:"agent_id"`
	Data         json.RawMessage `json:"data"`
}

const invokeThermostat = `{"skill_id":"thermostat","capability_id":"read","params":{"room":"hall"}}`

// TestEveryDoorGivesTheSameAnswer asks one question by MQTT 5, MQTT 3.1.1,
// HTTP in both forms, WebSocket and MQTT over WebSocket.
func TestEveryDoorGivesTheSameAnswer(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	serveThermostat(t, n)

	doors := map[string]func(t *testing.T) json.RawMessage{
		"SDK": func(t *testing.T) json.RawMessage {
			result, err := client.Call[json.RawMessage](t.Context(), n.Dial(t), "skill.invoke", json.RawMessage(invokeThermostat))
			if err != nil {
				t.Fatal(err)
			}
			return result
		},
		"MQTT 5": func(t *testing.T) json.RawMessage {
			return resultOf(t, n.Caller(t, "caller-5").Ask(t, bridgetest.Request("1", "skill.invoke", invokeThermostat)))
		},
		"MQTT 3.1.1":                func(t *testing.T) json.RawMessage { return askMQTT3(t, "tcp://"+n.MQTT, "caller-3") },
		"MQTT 3.1.1 over WebSocket": func(t *testing.T) json.RawMessage { return askMQTT3(t, "ws://"+n.WS+"/mqtt", "caller-ws") },
		"HTTP envelope": func(t *testing.T) json.RawMessage {
			status, body := post(t, n.HTTPURL("/api/v1/commands"), bridgetest.Request("2", "skill.invoke", invokeThermostat))
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			return resultOf(t, decode(t, body))
		},
		"HTTP command": func(t *testing.T) json.RawMessage {
			status, body := post(t, n.HTTPURL("/api/v1/commands/skill.invoke"), invokeThermostat)
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			return body
		},
		"WebSocket": func(t *testing.T) json.RawMessage {
			return resultOf(t, askWebSocket(t, "ws://"+n.WS+"/ws", bridgetest.Request("3", "skill.invoke", invokeThermostat)))
		},
	}
	want := answerable{"thermostat", "read", "hall-1", json.RawMessage(`{"celsius":21.5,"room":"hall"}`)}
	for name, ask := range doors {
		t.Run(name, func(t *testing.T) {
			var got answerable
			if err := json.Unmarshal(ask(t), &got); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %s %s %s %s", got.SkillID, got.CapabilityID, got.AgentID, got.Data)
			}
		})
	}
}

// serveThermostat serves a skill with the SDK.
func serveThermostat(t *testing.T, n *bridgetest.Node) {
	t.Helper()
	c := n.Dial(t, client.WithAgent(client.Agent{ID: "hall-1"}))
	type params struct {
		Room string `json:"room"`
	}
	type reading struct {
		Celsius float64 `json:"celsius"`
		Room    string  `json:"room"`
	}
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "thermostat", Name: "Thermostat", Description: "A thermostat for tests", Version: "1.0.0",
		Capabilities: []client.Capability{{
			ID: "read", Idempotent: true,
			ParamsSchema: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}`),
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p params) (reading, error) {
				return reading{21.5, p.Room}, nil
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func askMQTT3(t *testing.T, url, id string) json.RawMessage {
	t.Helper()
	answers := make(chan []byte, 1)
	c := mqtt3.NewClient(mqtt3.NewClientOptions().AddBroker(url).SetClientID(id).SetProtocolVersion(4).SetAutoReconnect(false))
	done := func(token mqtt3.Token) {
		t.Helper()
		if !token.WaitTimeout(bridgetest.Patience) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	done(c.Connect())
	defer c.Disconnect(100)
	done(c.Subscribe("aibridge/client/"+id+"/response", 1, func(_ mqtt3.Client, m mqtt3.Message) { answers <- m.Payload() }))
	done(c.Publish("aibridge/bridge/request", 1, false, bridgetest.Request("m3", "skill.invoke", invokeThermostat)))
	select {
	case body := <-answers:
		return resultOf(t, decode(t, body))
	case <-time.After(bridgetest.Patience):
		t.Fatal("no answer")
		return nil
	}
}

func askWebSocket(t *testing.T, url, envelope string) *protocol.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: bridgetest.HTTPClient(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(ctx, websocket.MessageText, []byte(envelope)); err != nil {
		t.Fatal(err)
	}
	_, body, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, body)
}

func post(t *testing.T, url, body string, header ...string) (status int, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

func decode(t *testing.T, body []byte) *protocol.Response {
	t.Helper()
	response, err := protocol.DecodeResponse(body, protocol.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return response
}

func resultOf(t *testing.T, r *protocol.Response) json.RawMessage {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Result
}
