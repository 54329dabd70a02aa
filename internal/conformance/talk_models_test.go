package conformance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
)

// A provider answers every question with a word, and notes which connections
// the questions came over.
type provider struct {
	*httptest.Server

	mu    sync.Mutex
	peers []string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.peers = append(p.peers, r.RemoteAddr)
		p.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{
			`{"model":"m","choices":[{"delta":{"content":"Yes."}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, "[DONE]",
		} {
			fmt.Fprintf(w, "data: %s\n\n", data)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// talkToModels asks a model by the paths of the LLM protocol, with bare
// params, and by the commands.
func talkToModels(t *testing.T) {
	p := newProvider(t)
	k := begin(t, func(c *app.Config) { c.LLM.BaseURL, c.LLM.Model = p.URL+"/v1", "house" })
	const paths = "/api/mcp-agent/llm/"
	answers := func(method, path, body string, says ...string) []byte {
		t.Helper()
		status, answer := request(t, k.Node, method, paths+path, body, "")
		if status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		k.saysAll(path, answer, says)
		return answer
	}
	k.does("agent.register", `{"agent_id":"asker","type":"end_agent","skills":[{"skill_id":"a2ui","name":"A2UI","capabilities":["ask"]}]}`)
	query := `{"skill_id":"a2ui","query":"Is it warm?","parameters":{"context":"26 degrees"}`
	answers(http.MethodPost, "query", query+"}", `"result":"Yes."`, `"tokens_used":15`)
	answers(http.MethodPost, "advanced-query", query+`,"options":{"model":"house","temperature":0.5,"max_tokens":100}}`,
		`"result":"Yes."`, `"tokens_used":15`, `"model":"house"`, `"execution_time":`)

	var status struct {
		Status string
		Uptime *float64
		Active *int `json:"active_requests"`
	}
	k.decode(answers(http.MethodGet, "status", ""), &status)
	if status.Status != "available" || status.Uptime == nil || status.Active == nil {
		t.Errorf("status: %+v", status)
	}
	var models struct {
		Models []struct{ ID, Name, Version, Status *string }
	}
	k.decode(answers(http.MethodGet, "models", ""), &models)
	if len(models.Models) != 1 || models.Models[0].ID == nil || models.Models[0].Name == nil || models.Models[0].Version == nil || models.Models[0].Status == nil {
		t.Errorf("models: %+v", models)
	}

	k.does("llm.query", query+"}", `"result":"Yes."`)
	k.does("llm.advanced-query", query+`,"options":{"temperature":0.5}}`, `"result":"Yes."`)
	k.does("llm.status", `{}`, `"status":"available"`)
	k.does("llm.models", `{}`, `"models":[`)

	p.mu.Lock()
	defer p.mu.Unlock()
	connections := make(map[string]bool)
	for _, peer := range p.peers {
		connections[peer] = true
	}
	if len(p.peers) != 4 || len(connections) == len(p.peers) {
		t.Errorf("%d questions came over %d connections", len(p.peers), len(connections))
	}
}
