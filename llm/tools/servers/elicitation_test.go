package servers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/llm/tools"
)

// A clientStub is a caller who can be asked by some methods.
type clientStub struct {
	methods string
	answer  string // "" is none

	mu    sync.Mutex
	asked []string
}

func (c *clientStub) Answers(method string) bool { return strings.Contains(c.methods, method) }

func (c *clientStub) Ask(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, method+" "+string(params))
	if c.answer == "" {
		return nil, errors.New("nobody is there")
	}
	return json.RawMessage(c.answer), nil
}

// asking calls the tool that shows forms, for a caller.
func (w *world) asking(t *testing.T, c *clientStub, arguments string) CallResult {
	t.Helper()
	answer, err := w.invoke(tools.WithAsker(t.Context(), c), w.env, "mcp.tool.call", json.RawMessage(`{"server":"notes","tool":"form","arguments":`+arguments+`}`))
	var r CallResult
	if err == nil {
		err = json.Unmarshal(answer, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAServerAsksTheCallersPerson(t *testing.T) {
	w, _, _ := curiosity(t, true, func(c *Config) { c.Elicitation = true })
	c := &clientStub{methods: elicitationMethod, answer: `{"action":"accept","content":{"name":"Ann","other":"more"}}`}
	if r := w.asking(t, c, `{"text":"Who\u202e are\nyou?","times":10}`); strings.Count(r.Text, "acceptmap[name:Ann]") != maxForms || strings.Count(r.Text, "at most 8 times") != 2 || r.Forms != maxForms {
		t.Errorf("got %d forms, %s", r.Forms, r.Text)
	}
	if len(c.asked) != maxForms || !strings.Contains(c.asked[0], `"message":"The MCP server \"notes\" asks, in its own words: Who are you?"`) {
		t.Errorf("asked %q", c.asked)
	}
	if r := w.asking(t, &clientStub{methods: elicitationMethod}, `{"text":"Anybody?"}`); !strings.HasPrefix(r.Text, "cancel") || r.Forms != 1 {
		t.Errorf("nobody answers: %+v", r)
	}
	silent := &clientStub{methods: samplingMethod, answer: `{"action":"accept"}`}
	if r := w.asking(t, silent, `{"text":"Anybody?"}`); strings.Contains(r.Text, "accept") || r.Forms != 0 || len(silent.asked) != 0 {
		t.Errorf("who cannot be asked: %+v, %q", r, silent.asked)
	}
}

func TestServersThatMayNotAskPeopleDoNot(t *testing.T) {
	w, _, _ := curiosity(t, true, nil)
	c := &clientStub{methods: elicitationMethod + samplingMethod, answer: `{"action":"accept"}`}
	if r := w.asking(t, c, `{"text":"Hello?"}`); strings.Contains(r.Text, "accept") || len(c.asked) != 0 {
		t.Errorf("got %s, asked %q", r.Text, c.asked)
	}
}
