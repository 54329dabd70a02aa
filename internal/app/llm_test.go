package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// says is a provider's answer: that text, in two pieces.
func says(text string) scripted.Reply {
	piece := func(text string) string {
		raw, _ := json.Marshal(text)
		return `{"model":"m-1","choices":[{"delta":{"content":` + string(raw) + `}}]}`
	}
	half := len(text) / 2
	return scripted.Stream(piece(text[:half]), piece(text[half:]),
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, "[DONE]")
}

// never is a provider's answer that begins and does not end.
func never() scripted.Reply {
	r := scripted.Stream(`{"choices":[{"delta":{"content":"Well"}}]}`)
	r.Hold = true
	return r
}

// withModel has a bridge ask a provider.
func withModel(s *scripted.Server) func(*app.Config) {
	return func(c *app.Config) { c.LLM.BaseURL, c.LLM.Model = s.URL+"/v1", "small" }
}

const (
	question  = `{"query":"Is 26 degrees too warm?"}`
	streaming = `{"query":"Is 26 degrees too warm?","stream":true}`
)

func TestEveryDoorLeadsToTheModel(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, says("Yes, a bit."))
	n := bridgetest.Start(t, withModel(s))
	check := func(t *testing.T, raw json.RawMessage) {
		t.Helper()
		var got llm.QueryResult
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.Result != "Yes, a bit." || got.TokensUsed != 15 || got.Model != "small" || got.FinishReason != "end_turn" || len(got.Segments) != 1 {
			t.Errorf("got %s", raw)
		}
	}
	doors := map[string]func(t *testing.T) json.RawMessage{
		"SDK": func(t *testing.T) json.RawMessage {
			result, err := client.Call[json.RawMessage](t.Context(), n.Dial(t), "llm.query", json.RawMessage(question))
			if err != nil {
				t.Fatal(err)
			}
			return result
		},
		"MQTT": func(t *testing.T) json.RawMessage {
			return resultOf(t, n.Caller(t, "asker").Ask(t, bridgetest.Request("1", "llm.query", question)))
		},
		"MQTT, streamed": func(t *testing.T) json.RawMessage {
			c := n.Caller(t, "listener")
			c.Send(t, "aibridge/bridge/request", bridgetest.Request("2", "llm.query", streaming))
			var text strings.Builder
			for {
				m := c.Next(t)
				event, ok := deltaOf(t, m.Payload)
				if !ok {
					if text.String() != "Yes, a bit." {
						t.Errorf("the stream says %q", text.String())
					}
					return resultOf(t, decode(t, m.Payload))
				}
				text.WriteString(event.Text)
			}
		},
		"HTTP": func(t *testing.T) json.RawMessage {
			status, body := post(t, n.HTTPURL("/api/v1/commands/llm.query"), question)
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			return body
		},
		"HTTP, streamed": func(t *testing.T) json.RawMessage {
			var text strings.Builder
			for name, data := range serverSent(t, n.HTTPURL("/api/v1/commands/llm.query"), streaming) {
				if name == "response" {
					if text.String() != "Yes, a bit." {
						t.Errorf("the stream says %q", text.String())
					}
					return resultOf(t, decode(t, data))
				}
				event, _ := deltaOf(t, data)
				text.WriteString(event.Text)
			}
			t.Fatal("no response")
			return nil
		},
	}
	for name, ask := range doors {
		t.Run(name, func(t *testing.T) { check(t, ask(t)) })
	}
}

// deltaOf is the piece of an answer in an llm.delta event.
func deltaOf(t *testing.T, payload []byte) (delta struct{ Text string }, ok bool) {
	t.Helper()
	var e struct {
		Event string
		Data  json.RawMessage
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		t.Fatal(err)
	}
	if e.Event != "llm.delta" {
		return delta, false
	}
	if err := json.Unmarshal(e.Data, &delta); err != nil {
		t.Fatal(err)
	}
	return delta, true
}

// serverSent posts to a URL and yields the events that come back.
func serverSent(t *testing.T, url, body string) func(yield func(name string, data []byte) bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	return serverSentBy(t, request)
}

// serverSentBy yields the events that come back.
func serverSentBy(t *testing.T, request *http.Request) func(yield func(name string, data []byte) bool) {
	t.Helper()
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, []byte) bool) {
		defer response.Body.Close()
		name := ""
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield(name, []byte(data)) {
				return
			}
		}
	}
}

func TestAQueryEndsWhenNobodyWaitsForIt(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, never())
	n := bridgetest.Start(t, withModel(s))
	for name, leave := range map[string]func(t *testing.T, n *bridgetest.Node, s *scripted.Server){
		"the HTTP request is closed": func(t *testing.T, n *bridgetest.Node, _ *scripted.Server) {
			for range serverSent(t, n.HTTPURL("/api/v1/commands/llm.query"), streaming) {
				break
			}
		},
		"the HTTP request is closed, without a stream": func(t *testing.T, n *bridgetest.Node, s *scripted.Server) {
			asked := len(s.Requests())
			ctx, cancel := context.WithCancel(t.Context())
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.HTTPURL("/api/v1/commands/llm.query"), strings.NewReader(question))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			go func() {
				eventually.Holds(t, "the model is asked", func() bool { return len(s.Requests()) > asked })
				cancel()
			}()
			if response, err := bridgetest.HTTPClient(t).Do(request); err == nil {
				_ = response.Body.Close()
				t.Error("it is answered")
			}
		},
		"the MQTT session ends": func(t *testing.T, n *bridgetest.Node, _ *scripted.Server) {
			c := n.Caller(t, "leaver")
			c.Send(t, "aibridge/bridge/request", bridgetest.Request("b-1", "llm.query", streaming))
			c.Next(t)
			c.Drop()
		},
		"the WebSocket is closed": func(t *testing.T, n *bridgetest.Node, _ *scripted.Server) {
			c, _, err := websocket.Dial(t.Context(), "ws://"+n.WS+"/ws", &websocket.DialOptions{HTTPClient: bridgetest.HTTPClient(t)})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Write(t.Context(), websocket.MessageText, []byte(bridgetest.Request("c-1", "llm.query", streaming))); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = c.CloseNow()
		},
		"its task is cancelled": func(t *testing.T, n *bridgetest.Node, s *scripted.Server) {
			asked := len(s.Requests())
			c := n.Caller(t, "asker")
			var task struct {
				ID string `json:"task_id"`
			}
			if err := json.Unmarshal(resultOf(t, c.Ask(t, bridgetest.Request("a-1", "llm.query", `{"query":"a","async":true}`))), &task); err != nil {
				t.Fatal(err)
			}
			eventually.Holds(t, "the model is asked", func() bool { return len(s.Requests()) > asked })
			resultOf(t, c.Ask(t, bridgetest.Request("a-2", "task.cancel", fmt.Sprintf(`{"task_id":%q}`, task.ID))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			gone := s.Gone()
			leave(t, n, s)
			eventually.Holds(t, "the provider is told", func() bool { return s.Gone() == gone+1 })
			eventually.Holds(t, "the bridge knows", func() bool { return active(t, n) == 0 })
		})
	}
}

// active is the number of queries that a bridge has under way.
func active(t testing.TB, n *bridgetest.Node) int {
	request, err := http.NewRequest(http.MethodPost, n.HTTPURL("/api/v1/commands/llm.status"), strings.NewReader("{}"))
	if err != nil {
		t.Error(err)
		return -1
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Error(err)
		return -1
	}
	defer response.Body.Close()
	var status llm.StatusResult
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Error(err)
	}
	return int(status.ActiveRequests)
}

func TestAQueryGoesOnForWhoListensElsewhereOrComesBack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := scripted.ForBridge(t, says("Yes."))
	s.Before = func() { <-release }
	n := bridgetest.Start(t, withModel(s))

	// One client asks, another listens on the first one's topic.
	asker := n.Connect(t, "asker")
	listener := n.Connect(t, "listener")
	listener.Listen(t, "aibridge/client/asker/response")
	asker.Send(t, "aibridge/bridge/request", bridgetest.Request("1", "llm.query", question))
	eventually.Holds(t, "the model is asked", func() bool { return active(t, n) == 1 })
	asker.Drop()

	// One asks and comes back to its session for the answer.
	keep := func(c *paho.Connect) {
		expiry := uint32(600)
		c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &expiry}
		c.CleanStart = false
	}
	roamer := n.Caller(t, "roamer", keep)
	roamer.Send(t, "aibridge/bridge/request", bridgetest.Request("2", "llm.query", question))
	eventually.Holds(t, "the model is asked twice", func() bool { return active(t, n) == 2 })
	roamer.Drop()
	close(release)
	if r := listener.Answer(t); r.Err != nil {
		t.Errorf("the listener gets %v", r.Err)
	}
	if r := n.Connect(t, "roamer", keep).Answer(t); r.Err != nil {
		t.Errorf("the one that came back gets %v", r.Err)
	}
	if s.Gone() != 0 {
		t.Error("a query was given up")
	}
}

func TestWhenOneProviderStopsAnotherAnswers(t *testing.T) {
	t.Parallel()
	first, second := scripted.ForBridge(t, says("first"), scripted.Reply{Status: 401}), scripted.ForBridge(t, says("second"))
	file := filepath.Join(t.TempDir(), "llm.yaml")
	write := func(more string) {
		text := fmt.Sprintf("providers: [{name: a, wire: openai, base_url: %s}, {name: b, wire: openai, base_url: %s}]\n"+
			"models: [{name: small, routes: [{provider: a}, {provider: b, priority: 1}]}]\n%s\n", first.URL, second.URL, more)
		bridgetest.Write(t, file, text)
	}
	write("")
	n := bridgetest.Start(t, func(c *app.Config) { c.LLM.File = file })
	c := n.Dial(t)
	ask := func() string {
		got, err := client.Call[llm.QueryResult](t.Context(), c, "llm.query", map[string]string{"query": "a"})
		if err != nil {
			return string(protocol.CodeOf(err))
		}
		return got.Result
	}
	for range 4 { // the first one fails three times before it is left alone for half a minute
		ask()
	}
	if got := ask(); got != "second" {
		t.Errorf("got %q", got)
	}
	status, err := client.Call[llm.StatusResult](t.Context(), c, "llm.status", struct{}{})
	if err != nil || status.Status != "degraded" || status.Providers[0].Breaker != "open" || status.Revision != 1 {
		t.Errorf("got %+v, %v", status, err)
	}
	response, err := bridgetest.HTTPClient(t).Get(n.HTTPURL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := string(text)
	for _, want := range []string{
		`aibridge_llm_requests_total{model="small",outcome="end_turn",provider="b",space="default"}`,
		`aibridge_llm_requests_total{model="small",outcome="auth",provider="a",space="default"} 3`,
		`aibridge_llm_breaker_open{provider="a"} 1`, `aibridge_llm_failovers_total{model="small"} 3`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not tell %s", want)
		}
	}

	write("budgets: [{per: principal, window: month, requests: 1}]")
	eventually.Holds(t, "the file is followed", func() bool { return ask() == string(protocol.BudgetSpent) })
	n.Restart(t)
	c = n.Dial(t)
	if got := ask(); got != string(protocol.BudgetSpent) {
		t.Errorf("after a restart: %s", got)
	}
	status, err = client.Call[llm.StatusResult](t.Context(), c, "llm.status", struct{}{})
	if err != nil || status.Revision != 2 {
		t.Errorf("after a restart: %+v, %v", status, err)
	}
}

func TestQueriesAreOnBehalfOfOnesOwnSkills(t *testing.T) {
	t.Parallel()
	n, key := closed(t, withModel(scripted.ForBridge(t, says("ok"))))
	ask := func(key, skill string) (protocol.Code, string) {
		t.Helper()
		status, body := post(t, n.HTTPURL("/api/v1/commands/llm.query"), fmt.Sprintf(`{"skill_id":%q,"query":"a"}`, skill), "X-API-Key", key)
		if status == http.StatusOK {
			return "", ""
		}
		var failed struct{ Error protocol.Error }
		if err := json.Unmarshal(body, &failed); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		reason, _ := failed.Error.Details["param_name"].(string)
		return failed.Error.Code, reason
	}
	keyOf := func(params string) string {
		t.Helper()
		status, body := post(t, n.HTTPURL("/api/v1/commands/key.create"), params, "X-API-Key", key)
		var made struct{ Key string }
		if err := json.Unmarshal(body, &made); err != nil || made.Key == "" {
			t.Fatalf("%d %s", status, body)
		}
		return made.Key
	}
	skill := keyOf(`{"principal_id":"heating","kind":"skill","roles":["skill"]}`)
	agent := keyOf(`{"principal_id":"boiler","kind":"agent","roles":["end_agent"]}`)
	observer := keyOf(`{"principal_id":"panel","kind":"operator","roles":["observer"]}`)
	for name, test := range map[string]struct {
		key, skill string
		code       protocol.Code
	}{
		"the administrator, for anybody":            {key, "heating", ""},
		"a skill, for itself":                       {skill, "heating", ""},
		"a skill, for another":                      {skill, "lighting", protocol.PermissionDenied},
		"an agent, for a skill that is not its own": {agent, "heating", protocol.PermissionDenied},
		"an agent, for itself":                      {agent, "boiler", ""},
		"an observer":                               {observer, "panel", protocol.PermissionDenied},
	} {
		if code, param := ask(test.key, test.skill); code != test.code || code != "" && test.key != observer && param != "skill_id" {
			t.Errorf("%s: %s %s", name, code, param)
		}
	}
}
