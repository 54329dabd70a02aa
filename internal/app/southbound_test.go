package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// southboundReply is a southbound response, as its reader declares it.
type southboundReply struct {
	Version     string    `json:"protocol_version"`
	CommandID   string    `json:"command_id"`
	Timestamp   time.Time `json:"timestamp"`
	Source      struct{ ID, Component string }
	Destination struct{ ID, Component string }
	Status      string
	Payload     json.RawMessage
	Error       *struct {
		Code    string
		Message string
	}
	Metadata struct{ Attempts int }
}

func southboundRequest(id, operation, payload string) string {
	return fmt.Sprintf(`{"protocol_version":"0.6.3","command_id":%q,"timestamp":%q,"source":{"component":"Skills","id":"a2ui"},
		"destination":{"component":"mcpAgent","id":"mcp-agent-1"},"operation":%q,"payload":%s,"metadata":{"priority":"medium","timeout":60,"retry_count":3}}`,
		id, time.Now().UTC().Format(time.RFC3339), operation, payload)
}

func readSouthbound(t *testing.T, body []byte) (r southboundReply) {
	t.Helper()
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if r.Version != "0.6.3" || r.Timestamp.IsZero() || r.Source.Component != "mcpAgent" || r.Source.ID != "mcp-agent-1" {
		t.Errorf("got %s", body)
	}
	return r
}

func TestTheLLMProtocolIsSpokenOverHTTP(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, withModel(scripted.ForBridge(t, says("Use a grid."))))
	const skills = `{"skill_id":"a2ui","query":"如何优化表单组件","parameters":{"context":"A2UI 四分离设计原则"}}`
	for path, test := range map[string]struct{ operation, params, want string }{
		"query":          {"execute-llm-query", skills, `"result":"Use a grid.","tokens_used":15`},
		"advanced-query": {"execute-llm-advanced-query", `{"skill_id":"a2ui","query":"a","options":{"model":"small","temperature":0.5,"max_tokens":9}}`, `"result":"Use a grid."`},
		"status":         {"get-llm-status", `{}`, `"status":"available"`},
		"models":         {"list-llm-models", `{}`, `"models":[{"id":"small"`},
	} {
		url := n.HTTPURL("/api/mcp-agent/llm/" + path)
		status, body := post(t, url, test.params)
		if status != http.StatusOK || !strings.Contains(string(body), test.want) {
			t.Errorf("%s with bare params: %d %s", path, status, body)
		}
		status, body = post(t, url, southboundRequest("c-"+path, test.operation, test.params))
		r := readSouthbound(t, body)
		if status != http.StatusOK || r.Status != "success" || r.Error != nil || r.CommandID != "c-"+path || r.Destination.ID != "a2ui" ||
			r.Metadata.Attempts != 1 || !strings.Contains(string(r.Payload), test.want) {
			t.Errorf("%s southbound: %d %s", path, status, body)
		}
		if test.params != `{}` {
			continue
		}
		response, err := bridgetest.HTTPClient(t).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		var bare map[string]any
		if err := json.NewDecoder(response.Body).Decode(&bare); err != nil || response.StatusCode != http.StatusOK || bare[strings.TrimPrefix(path, "x")] == nil {
			t.Errorf("GET %s: %d %v %v", path, response.StatusCode, bare, err)
		}
		_ = response.Body.Close()
	}

	status, body := post(t, n.HTTPURL("/api/v1/commands"), southboundRequest("c-0", "get-llm-status", `{}`))
	if r := readSouthbound(t, body); status != http.StatusOK || r.CommandID != "c-0" || r.Status != "success" {
		t.Errorf("where all envelopes go: %d %s", status, body)
	}
	status, body = post(t, n.HTTPURL("/api/mcp-agent/llm/query"), southboundRequest("c-1", "get-llm-status", `{}`))
	if r := readSouthbound(t, body); status != http.StatusBadRequest || r.Error == nil || r.Error.Code != "1000" {
		t.Errorf("the wrong path: %d %s", status, body)
	}
	status, body = post(t, n.HTTPURL("/api/mcp-agent/llm/query"), southboundRequest("c-2", "execute-llm-query", `{"query":"a","nonsense":1}`))
	if r := readSouthbound(t, body); status != http.StatusBadRequest || r.Status != "failed" || r.Error.Code != "1000" || string(r.Payload) != "{}" {
		t.Errorf("wrong params: %d %s", status, body)
	}
	status, body = post(t, n.HTTPURL("/api/mcp-agent/llm/query"), `{"nonsense":1}`)
	if status != http.StatusBadRequest || !strings.Contains(string(body), `"code":"1001"`) {
		t.Errorf("wrong bare params: %d %s", status, body)
	}
}

func TestTheLLMProtocolStreamsWhenAsked(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, withModel(scripted.ForBridge(t, says("Use a grid."))))
	for name, body := range map[string]string{
		"bare":       `{"query":"a","stream":true}`,
		"southbound": southboundRequest("c-1", "execute-llm-query", `{"query":"a","stream":true}`),
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTPURL("/api/mcp-agent/llm/query"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json") // and no Accept, as with curl
		var text strings.Builder
		last := ""
		for event, data := range serverSentBy(t, request) {
			if event == "llm.delta" {
				delta, _ := deltaOf(t, data)
				text.WriteString(delta.Text)
			}
			last = event + " " + string(data)
		}
		want := map[string]string{"bare": `"type":"response"`, "southbound": `"protocol_version"`}[name]
		if text.String() != "Use a grid." || !strings.HasPrefix(last, "response {") || !strings.Contains(last, want) || !strings.Contains(last, "Use a grid.") {
			t.Errorf("%s: %q, then %s", name, text.String(), last)
		}
	}
}

func TestTheLLMProtocolIsSpokenOverMQTT(t *testing.T) {
	t.Parallel()
	busy := scripted.Reply{Status: 503}
	s := scripted.ForBridge(t, busy, says("Use a grid."))
	n := bridgetest.Start(t, withModel(s))
	c := n.Caller(t, "a2ui")
	c.Send(t, "aibridge/bridge/request", southboundRequest("c-1", "execute-llm-query", `{"query":"a"}`))
	r := readSouthbound(t, c.Next(t).Payload)
	if r.Status != "success" || r.CommandID != "c-1" || r.Metadata.Attempts != 2 || !strings.Contains(string(r.Payload), "Use a grid.") {
		t.Errorf("got %+v", r)
	}
	c.Send(t, "aibridge/bridge/request", southboundRequest("c-2", "execute-llm-query", `{"query":"a","stream":true}`))
	for pieces := 0; ; pieces++ {
		payload := c.Next(t).Payload
		if _, event := deltaOf(t, payload); event {
			continue
		}
		if r := readSouthbound(t, payload); r.Status != "success" || pieces < 2 {
			t.Errorf("after %d pieces: %s", pieces, payload)
		}
		break
	}
	c.Send(t, "aibridge/bridge/request", southboundRequest("c-3", "reboot", `{}`))
	if r := readSouthbound(t, c.Next(t).Payload); r.Error == nil || r.Error.Code != "1000" {
		t.Errorf("an unknown operation: %+v", r)
	}
}

func TestTheLLMProtocolRefusesStrangersInTheirDialect(t *testing.T) {
	t.Parallel()
	n, key := closed(t)
	url := n.HTTPURL("/api/mcp-agent/llm/query")
	request := southboundRequest("c-1", "execute-llm-query", `{"query":"a"}`)
	status, body := post(t, url, request)
	if r := readSouthbound(t, body); status != http.StatusUnauthorized || r.Error == nil || r.Error.Code != "1001" || r.CommandID != "c-1" {
		t.Errorf("nobody: %d %s", status, body)
	}
	status, body = post(t, url, request, "X-API-Key", key)
	if r := readSouthbound(t, body); status != http.StatusServiceUnavailable || r.Error == nil || r.Error.Code != "1009" || r.Metadata.Attempts != 1 {
		t.Errorf("without models: %d %s", status, body)
	}
	status, body = post(t, url, `{"query":"a"}`)
	if status != http.StatusUnauthorized || !strings.Contains(string(body), `"code":"2001"`) {
		t.Errorf("nobody, with bare params: %d %s", status, body)
	}
}
