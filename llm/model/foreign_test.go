package model

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

const foreignDir = "testdata/foreign"

// foreign starts a provider that is not ours: aimock, from npm. It speaks all
// wires.
func foreign(t *testing.T) (url string) {
	t.Helper()
	program := filepath.Join(foreignDir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
	if _, err := os.Stat(program); err != nil {
		t.Skip("aimock is not installed: run npm ci in llm/model/" + foreignDir)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	cmd := exec.CommandContext(t.Context(), node, program, "-p", "0", "-f", filepath.Join(foreignDir, "fixtures"), "--strict", "--chunk-size", "5")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if _, address, ok := strings.Cut(lines.Text(), "listening on "); ok {
			return strings.TrimSpace(address)
		}
	}
	t.Fatalf("aimock does not come up:\n%s", said.String())
	return ""
}

// TestAForeignProviderUnderstandsAConversationOnEveryWire has two turns with
// reasoning, text and parallel calls.
func TestAForeignProviderUnderstandsAConversationOnEveryWire(t *testing.T) {
	url := foreign(t)
	for wire, test := range map[string]struct{ path, model string }{
		"openai":    {"/v1", "gpt-5"},
		"responses": {"/v1", "gpt-5"},
		"anthropic": {"/v1", "claude-sonnet-4-5"},
		"gemini":    {"/v1beta", "gemini-2.5-pro"},
	} {
		t.Run(wire, func(t *testing.T) {
			s := New(Options{Transport: &http.Transport{DisableKeepAlives: true}})
			if _, err := s.Configure(Config{
				Providers: []ProviderConfig{{Name: "aimock", Wire: wire, BaseURL: url + test.path}},
				Models:    []ModelConfig{{Name: test.model, Routes: []Route{{Provider: "aimock"}}}},
			}); err != nil {
				t.Fatal(err)
			}
			q := question1("How warm is the hall?")
			q.Request.Tools = []chat.Tool{{
				Name: "thermostat.read", Description: "Read the temperature of a room",
				Parameters: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}`),
			}}
			var streamed strings.Builder
			first, err := s.Ask(t.Context(), q, func(e chat.Event) error {
				if e.Type == chat.TextDelta {
					streamed.WriteString(e.Text)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			a := first.Answer
			calls := a.Calls()
			if streamed.String() != "I look." || a.Text() != "I look." || a.Finish.Reason != chat.ToolUse || len(calls) != 2 {
				t.Fatalf("got %q, %s, %d calls", a.Text(), a.Finish.Reason, len(calls))
			}
			reasoning := ""
			for _, segment := range a.Segments {
				if segment.Type == chat.Reasoning {
					reasoning += segment.Text
				}
			}
			if reasoning != "There is a thermostat in the hall." {
				t.Errorf("it thought %q", reasoning)
			}
			q.Request.Messages = append(q.Request.Messages, a.Message())
			for i, room := range []string{"hall", "attic"} {
				if calls[i].Name != "thermostat.read" && calls[i].Name != "thermostat_read" || string(calls[i].Args) != `{"room":"`+room+`"}` || calls[i].ID == "" {
					t.Errorf("call %d: %+v", i, calls[i])
				}
				q.Request.Messages = append(q.Request.Messages, chat.Message{
					Role: chat.ToolRole, ToolCallID: calls[i].ID, ToolName: calls[i].Name,
					Segments: []chat.Segment{{Type: chat.Text, Text: `{"celsius":21}`}},
				})
			}
			second, err := s.Ask(t.Context(), q, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text := second.Answer.Text(); text != "21 degrees in the hall, übrigens – 🌡 – and colder above." || second.Answer.Finish.Reason != chat.EndTurn {
				t.Errorf("got %q, %+v", text, second.Answer.Finish)
			}
		})
	}
}

func TestFailuresOfAForeignProviderAreUnderstood(t *testing.T) {
	url := foreign(t)
	for wire, path := range map[string]string{"openai": "/v1", "responses": "/v1", "anthropic": "/v1", "gemini": "/v1beta"} {
		for query, want := range map[string]chat.ErrorKind{"overloaded": chat.Overloaded, "forbidden": chat.AuthFailed, "nobody has written this down": chat.Overloaded} {
			c := at(&wiretest.Server{URL: url + path})
			c.Providers[0].Wire, c.Models[0].Routes[0].Model = wire, "gemini-2.5-pro"
			h := newHouse(t, c)
			_, err := h.ask(t, fmt.Sprintf(`{"query":%q}`, query))
			if err == nil || err.Details["reason"] != string(want) {
				t.Errorf("%s, %s: %v %v", wire, query, err, err.Details)
			}
		}
	}
}
